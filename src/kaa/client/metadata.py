"""What a client knows of the cluster: brokers, topics, and who leads each partition.

Pure: answers of the Metadata API go in, look-ups come out. News about a partition counts only if
its leader epoch is not below the one known, since brokers learn of elections at different times; a
topic that was created again (another id) starts from nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.client.errors import DELETED, DELETED_HINT, KafkaError
from kaa.wire.errors import Errors
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from kaa.wire.messages.k03_metadata import MetadataResponse, MetadataResponseTopic
    from kaa.wire.messages.k60_describe_cluster import DescribeClusterResponse
    from kaa.wire.primitives import Uuid

NO_NODE = -1


class Broker(NamedTuple):
    """A broker and its address for clients."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    # Whether it is registered and does not serve, where somebody asked for such ones.
    is_fenced: bool = False

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


class Partition(NamedTuple):
    """A partition: its leader (-1: none) and replicas."""

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error: Errors = Errors.NONE


class Topic(NamedTuple):
    """A topic that exists; `partitions` are in order and without gaps."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: tuple[Partition, ...]


class Metadata:
    """What a client knows of the cluster. Written by `update`, `learn`, `learn_leader` and
    `forget`.
    """

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = NO_NODE
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, Topic] = {}
        self.topic_names: dict[Uuid, str] = {}
        # Why the last answer held no such topic.
        self.topic_errors: dict[str, Errors] = {}
        # Names that were answered at some time: a topic that is no longer there was deleted.
        self._known: set[str] = set()

    def update(self, response: MetadataResponse, *, is_complete: bool = False) -> None:
        """Takes an answer in; a complete one names all topics, so that others are gone."""
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
        }
        known = set(self.topics)
        for answered in response.topics:
            if answered.name is None:
                continue
            known.discard(answered.name)
            if answered.error_code:
                self.forget(answered.name)
                self.topic_errors[answered.name] = Errors.of(answered.error_code)
            else:
                self._take(answered.name, answered)
        if is_complete:
            for name in known:
                self.forget(name)

    def update_nodes(self, response: DescribeClusterResponse) -> None:
        """Takes in the controllers, which know nothing of topics."""
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            node.broker_id: Broker(node.broker_id, node.host, node.port, node.rack)
            for node in response.brokers
        }

    def _take(self, name: str, answered: MetadataResponseTopic) -> None:
        old = self.topics.get(name)
        epochs: dict[int, Partition] = {}
        if old is not None and old.topic_id == answered.topic_id:
            epochs = {partition.partition: partition for partition in old.partitions}
        partitions = []
        for item in sorted(answered.partitions, key=lambda item: item.partition_index):
            before = epochs.get(item.partition_index)
            if before is not None and before.leader_epoch > item.leader_epoch >= 0:
                partitions.append(before)
                continue
            partitions.append(
                Partition(
                    item.partition_index,
                    item.leader_id,
                    item.leader_epoch,
                    tuple(item.replica_nodes),
                    tuple(item.isr_nodes),
                    tuple(item.offline_replicas or ()),
                    Errors.of(item.error_code),
                )
            )
        self.forget(name)
        self._known.add(name)
        self.topics[name] = Topic(name, answered.topic_id, answered.is_internal, tuple(partitions))
        if answered.topic_id != UUID_ZERO:
            self.topic_names[answered.topic_id] = name

    def learn_leader(self, topic: str, index: int, leader_id: int, leader_epoch: int) -> bool:
        """Takes in a leader that a refusal named; False if that is not news, or it is unknown."""
        known = self.partition(topic, index)
        if known is None or leader_epoch <= known.leader_epoch or leader_id not in self.brokers:
            return False
        found = self.topics[topic]
        partitions = list(found.partitions)
        partitions[index] = known._replace(
            leader_id=leader_id, leader_epoch=leader_epoch, error=Errors.NONE
        )
        self.topics[topic] = found._replace(partitions=tuple(partitions))
        return True

    def learn(self, broker: Broker) -> None:
        """Takes in a broker that some other answer named, until the next update."""
        if broker.node_id not in self.brokers:
            self.brokers[broker.node_id] = broker

    def forget(self, name: str) -> None:
        """Drops what is known of a topic."""
        self.topic_errors.pop(name, None)
        topic = self.topics.pop(name, None)
        if topic is not None:
            self.topic_names.pop(topic.topic_id, None)

    def error_of(self, name: str, what: str | None = None) -> KafkaError:
        """Why there is no such topic; `what` was wanted of it."""
        error = self.topic_errors.get(name, Errors.UNKNOWN_TOPIC_OR_PARTITION)
        is_deleted = self.is_deleted(name)
        return KafkaError(
            error,
            what or f"topic {name!r}",
            message=DELETED if is_deleted else None,
            hint=DELETED_HINT if is_deleted else None,
        )

    def is_deleted(self, name: str) -> bool:
        """Whether a topic was known, and the last answer about it had none."""
        error = self.topic_errors.get(name)
        return name in self._known and error is Errors.UNKNOWN_TOPIC_OR_PARTITION

    def partition(self, topic: str, index: int) -> Partition | None:
        """The partition, if it is known."""
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    def leader_of(self, topic: str, index: int) -> int:
        """The node that leads a partition; -1 if that is not known."""
        partition = self.partition(topic, index)
        if partition is None or partition.leader_id not in self.brokers:
            return NO_NODE
        return partition.leader_id
