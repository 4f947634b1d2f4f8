"""The admin client: topics, settings, offsets, groups, transactions and the cluster itself.

    async with Admin({"bootstrap.servers": "localhost:9092"}) as admin:
        await admin.create_topics([NewTopic("orders", partitions=3)])

A call about several things answers for each of them: `{name: None or the error}`. A call about
one thing, or one that only reads, raises. This module has topics and records; settings, groups,
transactions and the cluster are in the modules `admin_*`, and all are methods of `Admin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.client.admin.base import Outcome, outcome
from kaa.client.admin.cluster import ClusterAdmin, ClusterDescription, LogDir, LogDirReplica
from kaa.client.admin.configs import (
    ConfigAdmin,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigSource,
)
from kaa.client.admin.groups import GroupAdmin
from kaa.client.admin.replicas import ReplicaAdmin
from kaa.client.admin.share import ShareAdmin
from kaa.client.admin.streams import StreamsAdmin
from kaa.client.admin.transactions import TransactionAdmin
from kaa.client.arguments import names_of
from kaa.client.consumer.offsets import READ_UNCOMMITTED, list_offsets
from kaa.client.errors import KafkaError, check
from kaa.config.client_habits import config_text
from kaa.model.kinds import ResourceType
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
    from collections.abc import Iterable, Mapping, Sequence

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


class NewTopic(NamedTuple):
    """A topic to create; -1 leaves a number to the broker."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, object] = {}
    # Replicas by partition; then the two numbers must stay -1.
    assignments: Mapping[int, Sequence[int]] = {}


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
        unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION
        return {
            name: metadata.topics.get(name)
            or KafkaError(metadata.topic_errors.get(name, unknown), f"topic {name!r}")
            for name in wanted
        }

    async def describe_topic(self, name: str) -> Topic:
        """One topic; raises KafkaError if there is no such topic."""
        found = (await self.describe_topics([name]))[name]
        if isinstance(found, KafkaError):
            raise found
        return found

    async def create_topics(
        self, topics: Iterable[NewTopic | str], *, validate_only: bool = False
    ) -> Outcome:
        """Creates topics; by name None, or the error. `validate_only` checks and creates none.

        A name alone leaves everything else to the broker.
        """
        wanted = [topics] if isinstance(topics, NewTopic | str) else topics
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in wanted],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )
        response, node = await self._change(request, "creation of topics")
        return {
            answer.name: outcome(answer, f"cannot create topic {answer.name!r}", node)
            for answer in response.topics
        }

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
                CreatePartitionsTopic(name=name, count=count, assignments=None)
                for name, count in counts.items()
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
        self, times: Mapping[TopicPartition, int], isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by time, or by `offsets.EARLIEST` and its kind."""
        return await list_offsets(self.cluster, times, self._timeout_ms, isolation_level)

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Deletes what lies before the offsets (-1: everything); gives the new first offsets."""
        done: dict[TopicPartition, int] = {}

        async def attempt() -> None:
            left = [partition for partition in before if partition not in done]
            for name in {partition.topic for partition in left}:
                await self.cluster.topic(name, self._timeout_ms)
            for partition in left:
                connection = await self.cluster.connection(self.cluster.leader_or_raise(*partition))
                asked = DeleteRecordsPartition(
                    partition_index=partition.partition, offset=before[partition]
                )
                topic = DeleteRecordsTopic(name=partition.topic, partitions=[asked])
                request = DeleteRecordsRequest(topics=[topic], timeout_ms=self._timeout_ms)
                response = await connection.request(request, timeout_ms=self._timeout_ms)
                answer = response.topics[0].partitions[0]
                what = f"cannot delete records of {partition} before {before[partition]}"
                check(answer.error_code, what, node=connection.address)
                done[partition] = answer.low_watermark

        topics = {partition.topic for partition in before}
        await self.cluster.repeat(attempt, "deletion of records", self._timeout_ms, refresh=topics)
        return done


def _creatable(topic: NewTopic | str) -> CreatableTopic:
    if isinstance(topic, str):
        topic = NewTopic(topic)
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
            for partition, replicas in topic.assignments.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=config_text(name, value))
            for name, value in topic.configs.items()
        ],
    )
