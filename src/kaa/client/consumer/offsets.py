"""Offsets of partitions by time: each partition asks its leader, those of one leader together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.client.errors import ClientError, KafkaError
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from kaa.client.cluster import Cluster

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

_CONSUMER: Final = -1
# Some seconds, in which a partition may get a leader while others have answered.
_PARTLY_ATTEMPTS: Final = 6
_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:[.,]\d*)?)S)?)?", re.IGNORECASE
)


class OffsetAndTimestamp(NamedTuple):
    """An offset, -1 where there is none, and the timestamp of its record or -1."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class FoundOffsets(NamedTuple):
    """What was found, and why of other partitions nothing was."""

    offsets: dict[TopicPartition, OffsetAndTimestamp]
    failures: dict[TopicPartition, ClientError]


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    timeout_ms: int,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """For each partition the first offset at or after a time, or a special one as `LATEST`."""
    lookup = _Lookup(cluster, wanted, timeout_ms, isolation_level)
    await lookup.repeat(lookup.attempt)
    return lookup.found


async def find_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    timeout_ms: int,
    isolation_level: int = READ_UNCOMMITTED,
) -> FoundOffsets:
    """As `list_offsets`; partitions that cannot be asked hold up the others for some attempts
    alone. Raises if nothing was found.
    """
    lookup = _Lookup(cluster, wanted, timeout_ms, isolation_level)

    async def attempt() -> None:
        try:
            await lookup.attempt()
        except ClientError:
            if not lookup.found or lookup.attempts < _PARTLY_ATTEMPTS:
                raise

    try:
        await lookup.repeat(attempt)
    except ClientError as error:
        if not lookup.found:
            raise
        lookup.failures = {name: lookup.failures.get(name, error) for name in lookup.left}
    return FoundOffsets(lookup.found, lookup.failures)


class _Lookup:
    """One look-up with its attempts: each asks for what is still missing."""

    def __init__(
        self,
        cluster: Cluster,
        wanted: Mapping[TopicPartition, int],
        timeout_ms: int,
        isolation_level: int,
    ) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._timeout_ms = timeout_ms
        self._isolation_level = isolation_level
        self.attempts = 0
        self.found: dict[TopicPartition, OffsetAndTimestamp] = {}
        # What the last attempt could not find.
        self.failures: dict[TopicPartition, ClientError] = {}

    @property
    def left(self) -> list[TopicPartition]:
        return [name for name in self._wanted if name not in self.found]

    async def repeat(self, attempt: Callable[[], Awaitable[None]]) -> None:
        """Attempts until one succeeds, fails for good or time is up."""
        topics = {partition.topic for partition in self._wanted}
        await self._cluster.repeat(attempt, "look-up of offsets", self._timeout_ms, refresh=topics)

    async def attempt(self) -> None:
        """Asks every leader there is; then raises what failed, the failures that stay first."""
        cluster, left = self._cluster, self.left
        self.attempts += 1
        self.failures = {}
        for topic_name in {partition.topic for partition in left}:
            await cluster.topic(topic_name, self._timeout_ms)
        cluster.leaders.complain(left)
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in left:
            try:
                leader = cluster.leader_or_raise(*partition)
            except KafkaError as error:
                self.failures[partition] = error
            else:
                by_leader.setdefault(leader, []).append(partition)
        for leader, partitions in by_leader.items():
            try:
                await self._ask(leader, partitions)
            except ClientError as error:
                self.failures |= dict.fromkeys(partitions, error)
        if self.failures:
            raise min(self.failures.values(), key=lambda failure: failure.retriable)

    async def _ask(self, leader: int, partitions: list[TopicPartition]) -> None:
        connection = await self._cluster.connection(leader)
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=self._isolation_level,
            topics=_topics(self._cluster, partitions, self._wanted),
            timeout_ms=self._timeout_ms,
        )
        response = await connection.request(request, timeout_ms=self._timeout_ms)
        for topic in response.topics:
            for answer in topic.partitions:
                name = TopicPartition(topic.name, answer.partition_index)
                if answer.error_code:
                    self.failures[name] = KafkaError(
                        Errors.of(answer.error_code), f"offsets of {name}", node=connection.address
                    )
                else:
                    self.found[name] = OffsetAndTimestamp(
                        answer.offset, answer.timestamp, answer.leader_epoch
                    )


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
