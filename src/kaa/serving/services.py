"""What handlers work with: the parts of a node, put together once by the broker.

Every node has `NodeServices`, which is all that the handlers of a controller's listener ask for. A
broker has `Services`. What changes while a node runs is in its view.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaa.coordinators.group.coordinator import STREAMS_FEATURE

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Executor

    from kaa.config.server import BrokerConfig
    from kaa.controller.image import ClusterImage
    from kaa.controller.port import ControllerPort
    from kaa.controller.replica import MetadataReplica
    from kaa.coordinators.group.coordinator import GroupCoordinator
    from kaa.coordinators.share.coordinator import ShareCoordinator
    from kaa.coordinators.transaction.coordinator import TransactionCoordinator
    from kaa.log.manager import LogManager
    from kaa.model.seams import Clock
    from kaa.quorum.driver import QuorumDriver
    from kaa.replication.manager import ReplicaManager
    from kaa.serving.delayed import LongPolls
    from kaa.serving.fetch_sessions import FetchSessions
    from kaa.serving.metadata_answers import MetadataAnswers
    from kaa.serving.producer_ids import ProducerIds
    from kaa.serving.remote_logs import RemoteLogs
    from kaa.serving.share.manager import SharePartitions
    from kaa.serving.share.offsets import ShareGroupOffsets
    from kaa.serving.streams_topics import StreamsTopics
    from kaa.serving.topic_creation import TopicCreation
    from kaa.serving.transactions.additions import Additions
    from kaa.serving.transactions.markers import Markers
    from kaa.serving.transactions.peers import RemoteBrokers
    from kaa.serving.transactions.verification import Verification
    from kaa.serving.view import NodeView
    from kaa.wire.messages.k18_api_versions import ApiVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServices:
    """What a node of any role has."""

    view: NodeView
    # Where every change of metadata goes.
    controller: ControllerPort
    # This node's replica of the metadata.
    metadata: MetadataReplica
    logs: LogManager
    # For work on batches that takes too long for the loop: a small batch may expand to gigabytes.
    batch_work: Executor
    # What ApiVersions says, by the name of the listener.
    api_versions: dict[str, list[ApiVersion]]

    @property
    def node_id(self) -> int:
        return self.view.node_id

    @property
    def cluster_id(self) -> str:
        return self.view.cluster_id

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self.view.loop

    @property
    def clock(self) -> Clock:
        return self.view.clock

    @property
    def config(self) -> BrokerConfig:
        return self.view.config

    @property
    def image(self) -> ClusterImage:
        return self.view.image

    @property
    def image_offset(self) -> int:
        return self.view.image_offset

    @property
    def quorum(self) -> QuorumDriver:
        """The quorum that keeps the metadata; there once the metadata log is recovered."""
        return self.metadata.driver


@dataclass(frozen=True, slots=True, kw_only=True)
class Services(NodeServices):
    """What a broker has beside that."""

    replicas: ReplicaManager
    # None without tiered storage.
    remote_logs: RemoteLogs | None
    fetch_sessions: FetchSessions
    metadata_answers: MetadataAnswers
    polls: LongPolls
    topic_creation: TopicCreation
    streams_topics: StreamsTopics
    producer_ids: ProducerIds
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    # The other brokers, for what brokers ask of each other.
    brokers: RemoteBrokers
    markers: Markers
    additions: Additions
    verification: Verification
    # The state of share groups, as the share coordinator has it.
    shares: ShareCoordinator
    # The share partitions that this broker leads.
    share_partitions: SharePartitions
    share_offsets: ShareGroupOffsets

    @property
    def auto_create_topics(self) -> bool:
        return self.config.get_boolean("auto.create.topics.enable")

    @property
    def has_streams_groups(self) -> bool:
        """Whether the protocol of streams groups is there and switched on (KIP-1071)."""
        protocols = self.config.get_list("group.coordinator.rebalance.protocols")
        return self.image.features.get(STREAMS_FEATURE, 0) >= 1 and "streams" in protocols
