"""The admin client: topics, partitions, settings, offsets and the cluster itself.

::

    async with Admin({"bootstrap.servers": "localhost:9092"}) as admin:
        await admin.create_topics([NewTopic("orders", partitions=3)])

A call about several things answers for each of them: ``{name: None or the error}``. A call about
one thing, or one that only reads, raises.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from kaa.client.cluster import Cluster
from kaa.client.errors import KafkaError, check
from kaa.client.metadata import TopicPartition
from kaa.client.offsets import READ_UNCOMMITTED, list_offsets
from kaa.config.client import admin_values
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
from kaa.wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kaa.wire.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from kaa.wire.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kaa.wire.messages.k60_describe_cluster import DescribeClusterRequest
from kaa.wire.primitives import UUID_ZERO
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from random import Random

    from kaa.client.metadata import Broker, Topic
    from kaa.client.offsets import OffsetAndTimestamp
    from kaa.wire.schema import Request

Outcome = dict[str, KafkaError | None]
"""By name: None where it was done, else why not."""

# The first version of DeleteTopics that has a list of names and ids in place of names.
_DELETE_BY_ID_VERSION: Final = 6


class ResourceType(IntEnum):
    """Things that have settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from, the strongest first."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ConfigOperation(IntEnum):
    """What to do with a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class NewTopic(NamedTuple):
    """A topic to create; -1 leaves a number to the broker."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = {}
    # Replicas by partition; then the two numbers must stay -1.
    assignments: Mapping[int, Sequence[int]] = {}


class ConfigEntry(NamedTuple):
    """A setting as a broker describes it; sensitive ones have no value."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    documentation: str | None


class ConfigChange(NamedTuple):
    """One change of a setting."""

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


class ClusterDescription(NamedTuple):
    """The cluster, its brokers, and the broker that passes requests on to the controller."""

    cluster_id: str
    controller_id: int
    brokers: tuple[Broker, ...]


class LogDirReplica(NamedTuple):
    """A replica in a log directory."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A log directory of a broker; total and usable are -1 where the broker does not tell."""

    broker_id: int
    path: str
    error: Errors
    total_bytes: int
    usable_bytes: int
    replicas: tuple[LogDirReplica, ...]


class Admin:
    """See the module's text. Settings have the names and defaults of Java's admin client."""

    def __init__(self, settings: Mapping[str, str], *, random: Random | None = None) -> None:
        self.values = admin_values(settings)
        self.cluster = Cluster(self.values, random)
        self._timeout_ms = self.values.get_int("default.api.timeout.ms")

    async def __aenter__(self) -> Self:
        await self.cluster.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.cluster.close()

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
        wanted = list(names)

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
        """One topic; raises KafkaError if there is no such."""
        found = (await self.describe_topics([name]))[name]
        if isinstance(found, KafkaError):
            raise found
        return found

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> Outcome:
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )
        response, node = await self._change(request, "creation of topics")
        return {
            answer.name: _error(answer, f"cannot create topic {answer.name!r}", node)
            for answer in response.topics
        }

    async def delete_topics(self, names: Iterable[str]) -> Outcome:
        wanted = list(names)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=UUID_ZERO) for name in wanted],
            topic_names=wanted,
            timeout_ms=self._timeout_ms,
        )
        response, node = await self._change(request, "deletion of topics")
        for name in wanted:
            self.cluster.metadata.forget(name)
        return {
            answer.name: _error(answer, f"cannot delete topic {answer.name!r}", node)
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
            answer.name: _error(answer, f"cannot add partitions to {answer.name!r}", node)
            for answer in response.results
        }

    async def _change(self, request: Request, what: str) -> tuple[Any, str]:
        """A request for the controller; it is repeated only if it cannot have had an effect."""

        async def connect() -> Any:
            return await self.cluster.controller_connection()

        connection = await self.cluster.repeat(connect, what, self._timeout_ms)
        highest = None
        if request.api_key == ApiKey.DELETE_TOPICS:
            highest = connection.version_of(request.api_key)
            if highest < _DELETE_BY_ID_VERSION:
                request.topics = []  # type: ignore[attr-defined]
        response = await connection.request(request, version=highest, timeout_ms=self._timeout_ms)
        return response, connection.address

    # --- settings

    async def describe_configs(
        self,
        resource_type: ResourceType,
        name: str,
        names: Sequence[str] | None = None,
        *,
        documentation: bool = False,
    ) -> list[ConfigEntry]:
        """The settings of a topic, broker or group, all or those named."""
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=resource_type,
                    resource_name=name,
                    configuration_keys=None if names is None else list(names),
                )
            ],
            include_documentation=documentation,
        )
        what = f"settings of {resource_type.name.lower()} {name!r}"
        response = await self.cluster.call(
            request, what, self._timeout_ms, node_id=await self._config_node(resource_type, name)
        )
        result = response.results[0]
        check(result.error_code, what, message=result.error_message)
        return [
            ConfigEntry(
                entry.name,
                entry.value,
                _source(entry.config_source),
                entry.is_sensitive,
                entry.read_only,
                entry.documentation,
            )
            for entry in sorted(result.configs, key=lambda entry: str(entry.name))
        ]

    async def alter_configs(
        self,
        resource_type: ResourceType,
        name: str,
        changes: Iterable[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        """Changes settings one by one; those that are not named stay."""
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=resource_type,
                    resource_name=name,
                    configs=[
                        AlterableConfig(
                            name=change.name,
                            config_operation=change.operation,
                            value=change.value,
                        )
                        for change in changes
                    ],
                )
            ],
            validate_only=validate_only,
        )
        what = f"cannot change settings of {resource_type.name.lower()} {name!r}"
        node_id = await self._config_node(resource_type, name)
        if node_id is None:
            response, _ = await self._change(request, what)
        else:
            response = await self.cluster.call(request, what, self._timeout_ms, node_id=node_id)
        for result in response.responses:
            check(result.error_code, what, message=result.error_message)

    async def _config_node(self, resource_type: ResourceType, name: str) -> int | None:
        """Settings of a broker are known and checked by that broker alone."""
        if resource_type not in {ResourceType.BROKER, ResourceType.BROKER_LOGGER} or not name:
            return None
        if not self.cluster.metadata.brokers:

            async def attempt() -> None:
                await self.cluster.fetch_metadata([])

            await self.cluster.repeat(attempt, "metadata", self._timeout_ms)
        return int(name)

    # --- offsets and records

    async def list_offsets(
        self, times: Mapping[TopicPartition, int], isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by time, or by ``offsets.EARLIEST`` and its kind."""
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

    # --- the cluster

    async def describe_cluster(self) -> ClusterDescription:
        from kaa.client.metadata import Broker

        what = "description of the cluster"
        response = await self.cluster.call(DescribeClusterRequest(), what, self._timeout_ms)
        check(response.error_code, what, message=response.error_message)
        brokers = tuple(
            Broker(one.broker_id, one.host, one.port, one.rack)
            for one in sorted(response.brokers, key=lambda one: int(one.broker_id))
        )
        return ClusterDescription(response.cluster_id, response.controller_id, brokers)

    async def describe_log_dirs(self, broker_ids: Iterable[int] | None = None) -> list[LogDir]:
        """The log directories of these brokers, or of all."""
        cluster = await self.describe_cluster()
        wanted = [one.node_id for one in cluster.brokers] if broker_ids is None else broker_ids
        await self.cluster.fetch_metadata([])
        found: list[LogDir] = []
        for broker_id in wanted:
            what = f"log directories of broker {broker_id}"
            response = await self.cluster.call(
                DescribeLogDirsRequest(topics=None), what, self._timeout_ms, node_id=broker_id
            )
            check(response.error_code, what)
            found += [_log_dir(broker_id, result) for result in response.results]
        return found

    async def api_versions(self) -> dict[int, dict[int, tuple[int, int]]]:
        """By broker: lowest and highest version of every API that it serves."""
        cluster = await self.describe_cluster()
        await self.cluster.fetch_metadata([])
        return {
            broker.node_id: (await self.cluster.connection(broker.node_id)).versions
            for broker in cluster.brokers
        }


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
            for partition, replicas in topic.assignments.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )


def _error(answer: Any, what: str, node: str) -> KafkaError | None:
    if not answer.error_code:
        return None
    return KafkaError(Errors.of(answer.error_code), what, message=answer.error_message, node=node)


def _source(number: int) -> ConfigSource:
    known = {source.value for source in ConfigSource}
    return ConfigSource(number) if number in known else ConfigSource.UNKNOWN


def _log_dir(broker_id: int, result: Any) -> LogDir:
    return LogDir(
        broker_id,
        result.log_dir,
        Errors.of(result.error_code),
        result.total_bytes,
        result.usable_bytes,
        tuple(
            LogDirReplica(
                TopicPartition(topic.name, replica.partition_index),
                replica.partition_size,
                replica.offset_lag,
                replica.is_future_key,
            )
            for topic in result.topics
            for replica in topic.partitions
        ),
    )
