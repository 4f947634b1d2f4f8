"""The cluster itself for the admin client: brokers, disks, versions, features and the quorum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kaa.client.admin_base import AdminBase
from kaa.client.errors import KafkaError, check
from kaa.client.metadata import Broker, TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from kaa.wire.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from kaa.wire.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kaa.wire.messages.k60_describe_cluster import DescribeClusterRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_METADATA_TOPIC = "__cluster_metadata"
# What may happen to the levels of features: only upwards, downwards without loss, downwards.
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


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


class Feature(NamedTuple):
    """A feature: what the cluster has agreed on (0: nothing), and what a broker could do."""

    name: str
    finalized: int
    supported_low: int
    supported_high: int


class QuorumReplica(NamedTuple):
    """A voter or observer; times are milliseconds since 1970, -1 where they are not known."""

    node_id: int
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumDescription(NamedTuple):
    """The quorum of the cluster's metadata."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


class ClusterAdmin(AdminBase):
    """The part of the admin client that is about the cluster."""

    async def describe_cluster(self) -> ClusterDescription:
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
                for name, level in levels.items()
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

    async def describe_quorum(self) -> QuorumDescription:
        topic = RequestTopicData(
            topic_name=_METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)]
        )
        what = "description of the quorum"
        response = await self.cluster.call(
            DescribeQuorumRequest(topics=[topic]), what, self._timeout_ms
        )
        check(response.error_code, what, message=response.error_message)
        answer = response.topics[0].partitions[0]
        check(answer.error_code, what, message=answer.error_message)
        return QuorumDescription(
            answer.leader_id,
            answer.leader_epoch,
            answer.high_watermark,
            _replicas(answer.current_voters),
            _replicas(answer.observers),
        )


def _replicas(rows: Iterable[Any]) -> tuple[QuorumReplica, ...]:
    return tuple(
        QuorumReplica(
            row.replica_id,
            row.log_end_offset,
            row.last_fetch_timestamp,
            row.last_caught_up_timestamp,
        )
        for row in rows
    )


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
