"""The cluster itself for the admin client: brokers, disks, versions and features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.client.admin.base import outcome
from kaa.client.admin.quorum import QuorumAdmin
from kaa.client.arguments import broker_ids_of, pairs_of, partition_of
from kaa.client.cluster import CONTROLLER_ENDPOINTS
from kaa.client.errors import KafkaError, check
from kaa.client.metadata import Broker
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kaa.wire.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from kaa.wire.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kaa.wire.messages.k60_describe_cluster import DescribeClusterRequest
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# What may happen to the levels of features: only upwards, downwards without loss, downwards.
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
# The first version of DescribeCluster that can tell about fenced brokers (KIP-1073).
_FENCED_VERSION: Final = 2


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
    """A log directory of a broker; total and usable are -1 where the broker does not say them."""

    broker_id: int
    path: str
    error: Errors
    total_bytes: int
    usable_bytes: int
    replicas: tuple[LogDirReplica, ...]
    # Whether it takes no new partitions.
    is_cordoned: bool = False


class Feature(NamedTuple):
    """A feature: what the cluster has agreed on (0: nothing), and what a broker could do."""

    name: str
    finalized: int
    supported_low: int
    supported_high: int


class ClusterAdmin(QuorumAdmin):
    """The part of the admin client that is about the cluster."""

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """The brokers that serve; with `include_fenced` the others too, from Kafka 4.0 on."""
        what = "description of the cluster"

        async def attempt() -> Any:
            connection = await self.cluster.any_connection()
            tells_fenced = connection.version_of(ApiKey.DESCRIBE_CLUSTER) >= _FENCED_VERSION
            request = DescribeClusterRequest(include_fenced_brokers=include_fenced and tells_fenced)
            if self.cluster.asks_controllers:
                request = DescribeClusterRequest(endpoint_type=CONTROLLER_ENDPOINTS)
            return await connection.request(request, timeout_ms=self._timeout_ms)

        response = await self.cluster.repeat(attempt, what, self._timeout_ms)
        check(response.error_code, what, message=response.error_message)
        brokers = tuple(
            Broker(one.broker_id, one.host, one.port, one.rack, one.is_fenced)
            for one in sorted(response.brokers, key=lambda one: int(one.broker_id))
        )
        return ClusterDescription(response.cluster_id, response.controller_id, brokers)

    async def describe_log_dirs(self, broker_ids: Iterable[int] | None = None) -> list[LogDir]:
        """The log directories of these brokers, or of all."""
        wanted = None if broker_ids is None else broker_ids_of(broker_ids)
        if wanted is None:
            wanted = [one.node_id for one in (await self.describe_cluster()).brokers]
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

    async def alter_replica_log_dirs(
        self, wanted: Mapping[tuple[int, TopicPartition], str]
    ) -> dict[tuple[int, TopicPartition], KafkaError | None]:
        """Begins to move replicas, by broker and partition, to other directories of their brokers;
        the directory that a replica is in ends its move.
        """
        by_broker: dict[int, dict[str, dict[str, list[int]]]] = {}
        for pair, path in pairs_of(wanted, "pairs of a broker id and a partition, and paths"):
            broker_id, name = _replica_of(pair)
            topics = by_broker.setdefault(broker_id, {}).setdefault(path, {})
            topics.setdefault(name.topic, []).append(name.partition)
        await self.cluster.fetch_metadata([])
        found: dict[tuple[int, TopicPartition], KafkaError | None] = {}
        for broker_id, directories in by_broker.items():
            request = AlterReplicaLogDirsRequest(
                dirs=[
                    AlterReplicaLogDir(
                        path=path,
                        topics=[
                            AlterReplicaLogDirTopic(name=name, partitions=numbers)
                            for name, numbers in topics.items()
                        ],
                    )
                    for path, topics in directories.items()
                ]
            )
            what = f"moves between the directories of broker {broker_id}"
            response = await self.cluster.call(request, what, self._timeout_ms, node_id=broker_id)
            for topic in response.results:
                for one in topic.partitions:
                    name = TopicPartition(topic.topic_name, one.partition_index)
                    what = f"cannot move {name.topic}-{name.partition}"
                    found[broker_id, name] = outcome(one, what, f"broker {broker_id}")
        return found

    async def api_versions(self) -> dict[int, dict[int, tuple[int, int]]]:
        """By broker: lowest and highest version of every API that it serves."""
        cluster = await self.describe_cluster()
        await self.cluster.fetch_metadata([])
        return {
            broker.node_id: (await self.cluster.connection(broker.node_id)).versions
            for broker in cluster.brokers
        }

    async def describe_features(self) -> list[Feature]:
        """The features of the cluster by name, as one broker knows them."""

        async def attempt() -> list[Feature]:
            answer = (await self.cluster.any_connection()).api_versions
            assert answer is not None
            finalized = {one.name: one.max_version_level for one in answer.finalized_features}
            return [
                Feature(one.name, finalized.get(one.name, 0), one.min_version, one.max_version)
                for one in sorted(answer.supported_features, key=lambda one: str(one.name))
            ]

        features: list[Feature] = await self.cluster.repeat(attempt, "features", self._timeout_ms)
        return features

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: int = UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Sets the levels of features, all or none; 0 takes a feature away."""
        request = UpdateFeaturesRequest(
            timeout_ms=self._timeout_ms,
            feature_updates=[
                FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
                for name, level in pairs_of(levels, "features and levels")
            ],
            validate_only=validate_only,
        )
        what = "cannot change features"
        response, node = await self._change(request, what)
        check(response.error_code, what, message=response.error_message, node=node)
        for result in response.results or ():
            if result.error_code:
                raise KafkaError(
                    Errors.of(result.error_code),
                    f"cannot change feature {result.feature}",
                    message=result.error_message,
                    node=node,
                )


def _replica_of(given: object) -> tuple[int, TopicPartition]:
    if not isinstance(given, tuple) or len(given) != 2 or isinstance(given, TopicPartition):
        raise TypeError(f"{given!r} is not a pair of a broker id and a partition")
    (broker_id,) = broker_ids_of(given[0])
    return broker_id, partition_of(given[1])


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
        result.is_cordoned,
    )
