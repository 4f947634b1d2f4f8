"""The admin client: topics, settings, offsets, groups, transactions and the cluster itself.

    async with Admin({"bootstrap.servers": "localhost:9092"}) as admin:
        await admin.create_topics([NewTopic("orders", partitions=3)])

A call about several things answers for each of them: `{name: None or the error}`. A call about
one thing, or one that only reads, raises. This module has topics and records; settings, groups,
transactions and the cluster are in the modules `admin_*`, and all are methods of `Admin`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Never, Self

from kaa.client.admin.base import Outcome, outcome
from kaa.client.admin.cluster import ClusterAdmin, ClusterDescription, LogDir, LogDirReplica
from kaa.client.admin.configs import (
    ConfigAdmin,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
)
from kaa.client.admin.groups import GroupAdmin
from kaa.client.admin.replicas import ReplicaAdmin
from kaa.client.admin.share import ShareAdmin
from kaa.client.admin.streams import StreamsAdmin
from kaa.client.admin.transactions import TransactionAdmin
from kaa.client.arguments import (
    INT16_MAX,
    INT32_MAX,
    names_of,
    pairs_of,
    partition_of,
    refuse_others,
    whole_number,
)
from kaa.client.consumer.offsets import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    READ_UNCOMMITTED,
    list_offsets,
)
from kaa.client.errors import KafkaError, check
from kaa.config.client_habits import config_text
from kaa.model.kinds import ConfigSource, ResourceType
from kaa.wire.errors import Errors
from kaa.wire.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kaa.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kaa.wire.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.client.consumer.offsets import OffsetAndTimestamp
    from kaa.client.metadata import Topic
    from kaa.model.topics import TopicPartition

__all__ = [
    "Admin",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigSource",
    "LogDir",
    "LogDirReplica",
    "NewTopic",
    "Outcome",
    "ResourceType",
]

# The names of Kafka's tool for special times.
_TIMES: Final = {"earliest": EARLIEST, "latest": LATEST, "max-timestamp": MAX_TIMESTAMP}


# What other clients call the fields of a new topic.
_TOPIC_HABITS: Final = {
    "num_partitions": "partitions",
    "config": "configs",
    "topic_configs": "configs",
    "replica_assignment": "assignments",
    "replica_assignments": "assignments",
    "replicas_assignments": "assignments",
}


class _TopicFields(NamedTuple):
    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, object]
    # Replicas by partition; then the two numbers must stay -1.
    assignments: Mapping[int, Sequence[int]]


class NewTopic(_TopicFields):
    """A topic to create; -1 leaves a number to the broker."""

    __slots__ = ()

    def __new__(
        cls,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, object] = {},
        assignments: Mapping[int, Sequence[int]] = {},
        **others: Never,
    ) -> Self:
        if others:
            refuse_others("NewTopic", others, **_TOPIC_HABITS)
        return super().__new__(cls, name, partitions, replication_factor, configs, assignments)


class Admin(
    ClusterAdmin,
    ConfigAdmin,
    GroupAdmin,
    ReplicaAdmin,
    ShareAdmin,
    StreamsAdmin,
    TransactionAdmin,
):
    """Creates, describes, changes and deletes what a cluster has.

    Settings have the names and defaults of Java's admin client, as a dictionary
    (`{"bootstrap.servers": "localhost:9092"}`) or by name (`bootstrap_servers="localhost:9092"`).
    Use it inside `async with`, or call `start()` and `close()`.
    """

    # --- topics

    async def list_topics(self, *, internal: bool = False) -> list[Topic]:
        """All topics by name, those of Kafka itself only if asked for."""

        async def attempt() -> list[Topic]:
            metadata = await self.cluster.fetch_metadata(None)
            return [
                metadata.topics[name]
                for name in sorted(metadata.topics)
                if internal or not metadata.topics[name].is_internal
            ]

        topics: list[Topic] = await self.cluster.repeat(attempt, "list of topics", self._timeout_ms)
        return topics

    async def describe_topics(self, names: Iterable[str]) -> dict[str, Topic | KafkaError]:
        """Topics by name; a name that is unknown has its error."""
        wanted = names_of(names)

        async def attempt() -> None:
            for name in wanted:
                self.cluster.metadata.forget(name)
            await self.cluster.fetch_metadata(wanted)

        await self.cluster.repeat(attempt, "description of topics", self._timeout_ms)
        metadata = self.cluster.metadata
        return {name: metadata.topics.get(name) or metadata.error_of(name) for name in wanted}

    async def describe_topic(self, name: str) -> Topic:
        """One topic; raises KafkaError if there is no such topic."""
        found = (await self.describe_topics([name]))[name]
        if isinstance(found, KafkaError):
            raise found
        return found

    async def create_topics(
        self, topics: Iterable[NewTopic | str] | Mapping[str, int], *, validate_only: bool = False
    ) -> Outcome:
        """Creates topics; by name None, or the error. `validate_only` checks and creates none.

        A name alone leaves everything else to the broker; a dictionary has the numbers of
        partitions by name.
        """
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in _new_topics(topics)],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )
        response, node = await self._change(request, "creation of topics")
        return {answer.name: _creation_error(answer, node) for answer in response.topics}

    async def delete_topics(self, names: Iterable[str]) -> Outcome:
        """Deletes topics with all their records; by name None, or the error."""
        wanted = names_of(names)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=UUID_ZERO) for name in wanted],
            topic_names=wanted,
            timeout_ms=self._timeout_ms,
        )
        response, node = await self._change(request, "deletion of topics")
        for name in wanted:
            self.cluster.metadata.forget(name)
        return {
            answer.name: outcome(answer, f"cannot delete topic {answer.name!r}", node)
            for answer in response.responses
        }

    async def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool = False
    ) -> Outcome:
        """Raises the number of partitions of topics to the numbers given."""
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name=name, count=_partition_count(name, count), assignments=None
                )
                for name, count in pairs_of(counts, "topics and numbers of partitions")
            ],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )
        response, node = await self._change(request, "creation of partitions")
        return {
            answer.name: outcome(answer, f"cannot add partitions to {answer.name!r}", node)
            for answer in response.results
        }

    # --- offsets and records

    async def list_offsets(
        self, times: Mapping[TopicPartition, int | str], isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by time, or by `offsets.EARLIEST` and its kind, also by name: "earliest",
        "latest", "max-timestamp".
        """
        wanted = {
            partition_of(partition): _time_of(time)
            for partition, time in pairs_of(times, "partitions and times, as {partition: 'latest'}")
        }
        return await list_offsets(self.cluster, wanted, self._timeout_ms, isolation_level)

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Deletes what lies before the offsets (-1: everything); gives the new first offsets."""
        done: dict[TopicPartition, int] = {}
        offsets = {
            partition_of(partition): whole_number(offset, "an offset", least=-1)
            for partition, offset in pairs_of(before, "partitions and offsets")
        }

        async def attempt() -> None:
            left = [partition for partition in offsets if partition not in done]
            for name in {partition.topic for partition in left}:
                await self.cluster.topic(name, self._timeout_ms)
            for partition in left:
                connection = await self.cluster.connection(self.cluster.leader_or_raise(*partition))
                asked = DeleteRecordsPartition(
                    partition_index=partition.partition, offset=offsets[partition]
                )
                topic = DeleteRecordsTopic(name=partition.topic, partitions=[asked])
                request = DeleteRecordsRequest(topics=[topic], timeout_ms=self._timeout_ms)
                response = await connection.request(request, timeout_ms=self._timeout_ms)
                answer = response.topics[0].partitions[0]
                what = f"cannot delete records of {partition} before {offsets[partition]}"
                is_beyond = answer.error_code == Errors.OFFSET_OUT_OF_RANGE
                hint = "give an offset up to the end of the partition" if is_beyond else None
                check(answer.error_code, what, node=connection.address, hint=hint)
                done[partition] = answer.low_watermark

        topics = {partition.topic for partition in offsets}
        await self.cluster.repeat(attempt, "deletion of records", self._timeout_ms, refresh=topics)
        return done


def _new_topics(given: Iterable[NewTopic | str] | Mapping[str, int]) -> list[NewTopic]:
    if isinstance(given, Mapping):
        return [NewTopic(name, count) for name, count in given.items()]
    if isinstance(given, NewTopic | str) or not isinstance(given, Iterable):
        given = [given]
    return [_new_topic(one) for one in given]


def _new_topic(given: object) -> NewTopic:
    """A topic from its name, or from a pair of that and the number of partitions."""
    if isinstance(given, NewTopic):
        return given
    if isinstance(given, str):
        return NewTopic(given)
    if isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], str):
        return NewTopic(given[0], given[1])
    raise TypeError(f"{given!r} is not a topic; give its name, or NewTopic(name, partitions)")


def _partition_count(name: str, count: object) -> int:
    # Which numbers can be is for the broker to say.
    what = f"the number of partitions of {name!r}"
    return whole_number(count, what, least=-INT32_MAX, most=INT32_MAX)


def _time_of(given: object) -> int:
    special = _TIMES.get(given) if isinstance(given, str) else None
    if isinstance(given, str) and special is None:
        raise ValueError(
            f"{given!r} is not a time; give milliseconds, or one of {', '.join(_TIMES)}"
        )
    return whole_number(given if special is None else special, "a time", least=-INT32_MAX)


def _creation_error(answer: Any, node: str) -> KafkaError | None:
    error = outcome(answer, f"cannot create topic {answer.name!r}", node)
    if error is None or "collides" not in error.message:
        return error
    hint = "choose a name that differs in more than '.' and '_', which are one in metrics"
    return KafkaError(error.error, error.what, message=error.message, node=node, hint=hint)


def _creatable(topic: NewTopic) -> CreatableTopic:
    what = f"the replication factor of {topic.name!r}"
    return CreatableTopic(
        name=topic.name,
        num_partitions=_partition_count(topic.name, topic.partitions),
        replication_factor=whole_number(
            topic.replication_factor, what, least=-INT16_MAX, most=INT16_MAX
        ),
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
            for partition, replicas in topic.assignments.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=config_text(name, value))
            for name, value in topic.configs.items()
        ],
    )
