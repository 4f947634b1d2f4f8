"""The leader epochs of partitions, as their leaders know them, by the API that every client has.

OffsetForLeaderEpoch says for an epoch where it, or the latest one before it, ended in the leader's
log. An epoch is in that log if it is named itself; it begins where the one before it ended. An
epoch before all that the leader remembers ends, like the one before it, where those begin, and so
is empty here. Only the epochs that segments name are asked for.

Every question carries the epoch of the leader that was known when the first one was asked, so that
answers of two leaders never mix: a change in between fails the round, which begins again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.client.errors import KafkaError
from kaa.model.topics import NO_EPOCH, TopicPartition
from kaa.spark.tier.plan import ChainEpoch
from kaa.wire.errors import Errors
from kaa.wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kaa.client.cluster import Cluster

_CONSUMER: Final = -1
# The epoch that is answered, and where it ends.
_Ends = dict[TopicPartition, dict[int, tuple[int, int]]]


async def leader_chains(
    cluster: Cluster, epochs: Mapping[TopicPartition, Collection[int]], timeout_ms: int
) -> dict[TopicPartition, list[ChainEpoch]]:
    """The epochs that are in the log of each leader now, rising. ClientError."""

    async def attempt() -> dict[TopicPartition, list[ChainEpoch]]:
        for topic in {partition.topic for partition in epochs}:
            await cluster.topic(topic, timeout_ms)
        asked = {
            partition: sorted({one for epoch in wanted for one in (epoch - 1, epoch) if one >= 0})
            for partition, wanted in epochs.items()
        }
        leaders = {
            partition: (cluster.leader_or_raise(*partition), _leader_epoch(cluster, partition))
            for partition in epochs
        }
        ends: _Ends = {partition: {} for partition in epochs}
        for number in range(max(map(len, asked.values()), default=0)):
            # A request names a partition once.
            left = {one: some[number] for one, some in asked.items() if number < len(some)}
            await _ask(cluster, leaders, left, timeout_ms, ends)
        return {partition: chain_of(epochs[partition], ends[partition]) for partition in epochs}

    topics = {partition.topic for partition in epochs}
    chains: dict[TopicPartition, list[ChainEpoch]] = await cluster.repeat(
        attempt, "leader epochs", timeout_ms, refresh=topics
    )
    return chains


def _leader_epoch(cluster: Cluster, partition: TopicPartition) -> int:
    known = cluster.metadata.partition(*partition)
    return NO_EPOCH if known is None else known.leader_epoch


async def _ask(
    cluster: Cluster,
    leaders: Mapping[TopicPartition, tuple[int, int]],
    wanted: Mapping[TopicPartition, int],
    timeout_ms: int,
    ends: _Ends,
) -> None:
    by_leader: dict[int, dict[str, OffsetForLeaderTopic]] = {}
    for partition, epoch in wanted.items():
        leader, leader_epoch = leaders[partition]
        topics = by_leader.setdefault(leader, {})
        topic = topics.setdefault(
            partition.topic, OffsetForLeaderTopic(topic=partition.topic, partitions=[])
        )
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=partition.partition,
                current_leader_epoch=leader_epoch,
                leader_epoch=epoch,
            )
        )
    for leader, topics in by_leader.items():
        connection = await cluster.connection(leader)
        request = OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))
        response = await connection.request(request, timeout_ms=timeout_ms)
        for answered in response.topics:
            for one in answered.partitions:
                name = TopicPartition(answered.topic, one.partition)
                if one.error_code:
                    raise KafkaError(
                        Errors.of(one.error_code),
                        f"leader epochs of {name}",
                        node=connection.address,
                    )
                ends[name][wanted[name]] = (one.leader_epoch, one.end_offset)


def chain_of(epochs: Collection[int], ends: Mapping[int, tuple[int, int]]) -> list[ChainEpoch]:
    """Those that are in the log; `ends` has the answers for each and for the one before it."""
    chain = []
    for epoch in sorted(epochs):
        found, end = ends[epoch]
        if found != epoch:
            continue
        _, start = ends.get(epoch - 1, (NO_EPOCH, 0))
        chain.append(ChainEpoch(epoch, max(0, start), end))
    return chain
