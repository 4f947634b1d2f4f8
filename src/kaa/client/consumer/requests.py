"""Fetch requests for some partitions of one broker, and a single fetch of raw batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.client.consumer.fetched import next_fetch_offset
from kaa.client.consumer.offsets import READ_UNCOMMITTED
from kaa.client.errors import ClientError, KafkaError
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kaa.wire.primitives import UUID_ZERO
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.client.cluster import Cluster
    from kaa.client.connection import Connection
    from kaa.client.metadata import Metadata
    from kaa.model.topics import TopicPartition

# The first version of Fetch that names topics by their ids alone.
_TOPIC_ID_VERSION: Final = 13


class FetchBounds(NamedTuple):
    """How much a fetch may bring, and how long it may wait."""

    partition_bytes_max: int
    bytes_max: int
    wait_ms: int
    bytes_min: int = 1
    isolation_level: int = READ_UNCOMMITTED
    rack_id: str = ""


class FetchedBatches(NamedTuple):
    """Batches as the broker keeps them: `data` may end with a part of one."""

    data: memoryview
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    # First offset and producer id of transactions to pass over; None under read_uncommitted.
    aborted: list[tuple[int, int]] | None


def fetch_request(
    metadata: Metadata, wanted: Mapping[TopicPartition, int], bounds: FetchBounds
) -> FetchRequest:
    """A request for partitions from their offsets on."""
    topics: dict[str, FetchTopic] = {}
    for (name, partition), offset in wanted.items():
        topic = topics.get(name)
        if topic is None:
            known = metadata.topics.get(name)
            topic_id = UUID_ZERO if known is None else known.topic_id
            topic = topics[name] = FetchTopic(topic=name, topic_id=topic_id, partitions=[])
        known_partition = metadata.partition(name, partition)
        topic.partitions.append(
            FetchPartition(
                partition=partition,
                current_leader_epoch=-1 if not known_partition else known_partition.leader_epoch,
                fetch_offset=offset,
                partition_max_bytes=bounds.partition_bytes_max,
            )
        )
    return FetchRequest(
        max_wait_ms=bounds.wait_ms,
        min_bytes=bounds.bytes_min,
        max_bytes=bounds.bytes_max,
        isolation_level=bounds.isolation_level,
        topics=list(topics.values()),
        forgotten_topics_data=[],
        rack_id=bounds.rack_id,
    )


def fetch_version(
    connection: Connection, metadata: Metadata, wanted: Iterable[TopicPartition]
) -> int:
    """Topics without ids, which old clusters have, need the older versions."""
    for partition in wanted:
        topic = metadata.topics.get(partition.topic)
        if topic is None or topic.topic_id == UUID_ZERO:
            return connection.version_of(ApiKey.FETCH, _TOPIC_ID_VERSION - 1)
    return connection.version_of(ApiKey.FETCH)


def aborted_of(answer: Any, isolation_level: int) -> list[tuple[int, int]] | None:
    """Transactions to pass over: first offset and producer id."""
    if isolation_level == READ_UNCOMMITTED:
        return None
    return [(one.first_offset, one.producer_id) for one in answer.aborted_transactions or ()]


async def _fetch_once(
    cluster: Cluster, node_id: int, partition: TopicPartition, offset: int, bounds: FetchBounds
) -> Any:
    """What one broker answers about one partition; raises KafkaError."""
    connection = await cluster.connection(node_id)
    response = await connection.request(
        fetch_request(cluster.metadata, {partition: offset}, bounds),
        version=fetch_version(connection, cluster.metadata, [partition]),
        timeout_ms=bounds.wait_ms + cluster.values.get_int("request.timeout.ms"),
    )
    code, answer = response.error_code, None
    if response.responses and response.responses[0].partitions:
        answer = response.responses[0].partitions[0]
        code = code or answer.error_code
    if code or answer is None:
        error = Errors.of(code) if code else Errors.UNKNOWN_TOPIC_OR_PARTITION
        what = f"fetch of {partition} at offset {offset}"
        raise KafkaError(error, what, node=connection.address)
    return answer


async def fetch_batches(
    cluster: Cluster,
    partition: TopicPartition,
    offset: int,
    bounds: FetchBounds,
    timeout_ms: int,
) -> FetchedBatches:
    """One fetch from the leader of a partition, or from the nearer replica that it names (KIP-392),
    undecoded.
    """

    async def attempt() -> FetchedBatches:
        await cluster.topic(partition.topic, timeout_ms)
        leader = cluster.leader_or_raise(*partition)
        answer = await _fetch_once(cluster, leader, partition, offset, bounds)
        replica = answer.preferred_read_replica
        if replica in cluster.metadata.brokers:
            try:
                answer = await _fetch_once(cluster, replica, partition, offset, bounds)
            except ClientError:
                # It may lag behind, or be gone; a client without a rack is not sent away.
                at_leader = bounds._replace(rack_id="")
                answer = await _fetch_once(cluster, leader, partition, offset, at_leader)
        data = memoryview(answer.records or b"")
        return FetchedBatches(
            data,
            next_fetch_offset(data, offset),
            answer.high_watermark,
            answer.last_stable_offset,
            answer.log_start_offset,
            aborted_of(answer, bounds.isolation_level),
        )

    batches: FetchedBatches = await cluster.repeat(
        attempt, f"fetch of {partition}", timeout_ms, refresh=[partition.topic]
    )
    return batches
