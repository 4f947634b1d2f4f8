"""Offsets of partitions by time: each partition asks its leader, those of one leader together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.client.errors import KafkaError
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.client.cluster import Cluster

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

_CONSUMER: Final = -1
_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:[.,]\d*)?)S)?)?", re.IGNORECASE
)


class OffsetAndTimestamp(NamedTuple):
    """An offset, -1 where there is none, and the timestamp of its record or -1."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    timeout_ms: int,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """For each partition the first offset at or after a time, or a special one as `LATEST`."""
    found: dict[TopicPartition, OffsetAndTimestamp] = {}

    async def attempt() -> None:
        left = {name: time for name, time in wanted.items() if name not in found}
        for topic_name in {partition.topic for partition in left}:
            await cluster.topic(topic_name, timeout_ms)
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in left:
            by_leader.setdefault(cluster.leader_or_raise(*partition), []).append(partition)
        for leader, partitions in by_leader.items():
            connection = await cluster.connection(leader)
            request = ListOffsetsRequest(
                replica_id=_CONSUMER,
                isolation_level=isolation_level,
                topics=_topics(cluster, partitions, left),
                timeout_ms=timeout_ms,
            )
            response = await connection.request(request, timeout_ms=timeout_ms)
            for topic in response.topics:
                for answer in topic.partitions:
                    name = TopicPartition(topic.name, answer.partition_index)
                    if answer.error_code:
                        raise KafkaError(
                            Errors.of(answer.error_code),
                            f"offsets of {name}",
                            node=connection.address,
                        )
                    found[name] = OffsetAndTimestamp(
                        answer.offset, answer.timestamp, answer.leader_epoch
                    )

    topics = {partition.topic for partition in wanted}
    await cluster.repeat(attempt, "look-up of offsets", timeout_ms, refresh=topics)
    return found


def _topics(
    cluster: Cluster, partitions: Iterable[TopicPartition], times: Mapping[TopicPartition, int]
) -> list[ListOffsetsTopic]:
    topics: dict[str, ListOffsetsTopic] = {}
    for name in partitions:
        topic = topics.setdefault(name.topic, ListOffsetsTopic(name=name.topic, partitions=[]))
        known = cluster.metadata.partition(*name)
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=name.partition,
                current_leader_epoch=-1 if known is None else known.leader_epoch,
                timestamp=times[name],
            )
        )
    return list(topics.values())


def duration_ms(text: str) -> int:
    """Milliseconds of an ISO 8601 duration such as `PT1H30M`; raises ValueError."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ValueError(f"{text!r} is not a duration; write it as P1DT2H3M4S")
    days, hours, minutes = (int(match[number] or 0) for number in (1, 2, 3))
    seconds = float((match[4] or "0").replace(",", "."))
    return ((days * 24 + hours) * 60 + minutes) * 60_000 + round(seconds * 1000)
