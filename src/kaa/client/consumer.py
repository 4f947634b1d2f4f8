"""The consumer of partitions that its user assigns to it.

::

    async with Consumer({"bootstrap.servers": "localhost:9092"}) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        await consumer.seek_to_beginning()
        for partition, records in (await consumer.poll()).items():
            ...

One task per broker keeps fetching the partitions that it leads, as long as the partition has room
for another answer; ``poll`` decodes what has come. Each partition has two offsets: the *position*
is that of the next record that ``poll`` hands out, the *fetch offset* is that of the next fetch and
runs ahead of it. A seek changes both and drops what was fetched before.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from kaa.client.cluster import Cluster
from kaa.client.errors import ClientError, ClosedError, KafkaError
from kaa.client.fetched import FetchedRecords, next_fetch_offset
from kaa.client.metadata import NO_NODE, TopicPartition
from kaa.client.offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    duration_ms,
    list_offsets,
)
from kaa.config.client import consumer_values
from kaa.limits import CLIENT_FETCHED_CHUNKS_MAX
from kaa.records.errors import RecordsError
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kaa.wire.primitives import UUID_ZERO
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from random import Random

    from kaa.client.connection import Connection
    from kaa.client.offsets import OffsetAndTimestamp
    from kaa.records.record import Header, Record

# The first version of Fetch that names topics by their ids alone.
_TOPIC_ID_VERSION: Final = 13
_STALE_METADATA: Final = frozenset(
    {
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.INCONSISTENT_TOPIC_ID,
        Errors.LEADER_NOT_AVAILABLE,
        Errors.REPLICA_NOT_AVAILABLE,
        Errors.FENCED_LEADER_EPOCH,
        Errors.UNKNOWN_LEADER_EPOCH,
        Errors.KAFKA_STORAGE_ERROR,
        Errors.OFFSET_NOT_AVAILABLE,
    }
)


class ConsumerRecord(NamedTuple):
    """A record with the name of its partition, for those who iterate over single records."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class FetchedBatches(NamedTuple):
    """Batches as the broker keeps them: ``data`` may end with a part of one."""

    data: memoryview
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    # First offset and producer id of transactions to pass over; None under read_uncommitted.
    aborted: list[tuple[int, int]] | None


class _Assigned:
    """The state of one assigned partition."""

    __slots__ = ("chunks", "fetch_offset", "high_watermark", "is_paused", "position", "reset_to")

    def __init__(self, reset_to: int | None) -> None:
        # None: not known yet, look up ``reset_to``.
        self.position: int | None = None
        self.fetch_offset = -1
        self.reset_to = reset_to
        self.chunks: deque[FetchedRecords] = deque()
        self.high_watermark = -1
        self.is_paused = False

    def move(self, offset: int) -> None:
        self.position = self.fetch_offset = offset
        self.chunks.clear()


class Consumer:
    """See the module's text. Settings have the names and defaults of Java's consumer."""

    def __init__(self, settings: Mapping[str, str], *, random: Random | None = None) -> None:
        self.values = consumer_values(settings)
        self.cluster = Cluster(self.values, random)
        committed = self.values.get_string("isolation.level") == "read_committed"
        self._isolation_level = READ_COMMITTED if committed else READ_UNCOMMITTED
        self._checks_crcs = self.values.get_boolean("check.crcs")
        self._poll_records_max = self.values.get_int("max.poll.records")
        self._timeout_ms = self.values.get_int("default.api.timeout.ms")
        self._assigned: dict[TopicPartition, _Assigned] = {}
        # Where the next poll starts, so that a busy partition does not starve the others.
        self._turns: deque[TopicPartition] = deque()
        self._fetchers: dict[int, asyncio.Event] = {}
        self._arrived = asyncio.Event()
        self._housekeeping = asyncio.Event()
        self._metadata_is_stale = False
        self._failure: Exception | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._running: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()
        self._is_closed = False

    # --- life

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.cluster)
        self._tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
        self._running.append(self._tasks.create_task(self._keep_house()))
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._is_closed = True
        for task in self._running:
            task.cancel()
        await self._stack.aclose()

    # --- assignment and positions

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions from now on; those that stay keep their position."""
        reset_to = self._reset_time()
        wanted = [TopicPartition(*partition) for partition in partitions]
        self._assigned = {
            partition: self._assigned.get(partition) or _Assigned(reset_to) for partition in wanted
        }
        self._turns = deque(wanted)
        self._wake()

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        return tuple(self._assigned)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """The next poll hands out the record with this offset, or the first one behind it."""
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        self._state(partition).move(offset)
        self._wake()

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        await self._seek_to(partitions, EARLIEST)

    async def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        await self._seek_to(partitions, LATEST)

    async def _seek_to(self, partitions: Iterable[TopicPartition], time_ms: int) -> None:
        wanted = dict.fromkeys(partitions or self._assigned, time_ms)
        for partition, found in (await self._list(wanted)).items():
            self.seek(partition, found.offset)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that a poll hands out."""
        state = self._state(partition)
        if state.position is None:
            await self._resolve([partition])
        assert state.position is not None
        return state.position

    def high_watermark(self, partition: TopicPartition) -> int:
        """The end of the partition for consumers, as last heard; -1 if nothing was fetched."""
        return self._state(partition).high_watermark

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._state(partition).is_paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._state(partition).is_paused = False
        self._wake()

    def _state(self, partition: TopicPartition) -> _Assigned:
        state = self._assigned.get(partition)
        if state is None:
            raise ClientError(f"partition {TopicPartition(*partition)} is not assigned")
        return state

    # --- offsets

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        found = await self.cluster.topic(topic, self._timeout_ms)
        return [TopicPartition(topic, one.partition) for one in found.partitions]

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        found = await self._list(dict.fromkeys(partitions, EARLIEST))
        return {partition: answer.offset for partition, answer in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Ends for this isolation level: under read_committed the last stable offset."""
        found = await self._list(dict.fromkeys(partitions, LATEST))
        return {partition: answer.offset for partition, answer in found.items()}

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or behind a time; None where there is none."""
        if any(time_ms < 0 for time_ms in times_ms.values()):
            raise ValueError("times are milliseconds since 1970 and not negative")
        found = await self._list(times_ms)
        return {
            partition: answer if answer.offset >= 0 else None for partition, answer in found.items()
        }

    async def _list(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return await list_offsets(self.cluster, wanted, self._timeout_ms, self._isolation_level)

    # --- records

    async def poll(
        self, timeout_ms: int | None = None, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record]]:
        """The next records by partition; waits for the first, at most so long (None: for ever)."""
        if self._is_closed or self._tasks is None:
            raise ClosedError("the consumer is not running; use it inside 'async with'")
        count_max = max_records or self._poll_records_max
        records = self._take(count_max)
        if records or timeout_ms == 0:
            return records
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                while not records:
                    self._arrived.clear()
                    await self._arrived.wait()
                    records = self._take(count_max)
        except TimeoutError:
            pass
        return records

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        while True:
            for (topic, partition), records in (await self.poll()).items():
                for offset, timestamp, key, value, headers, _ in records:
                    yield ConsumerRecord(topic, partition, offset, timestamp, key, value, headers)

    def _take(self, count_max: int) -> dict[TopicPartition, list[Record]]:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        taken: dict[TopicPartition, list[Record]] = {}
        freed = False
        for _ in range(len(self._turns)):
            partition = self._turns[0]
            self._turns.rotate(-1)
            state = self._assigned[partition]
            if state.is_paused:
                continue
            while state.chunks and count_max > 0:
                chunk = state.chunks[0]
                try:
                    records = chunk.take(count_max)
                except RecordsError as error:
                    raise _damaged(partition, chunk.next_offset, error) from error
                state.position = chunk.next_offset
                if not records:
                    state.chunks.popleft()
                    freed = True
                elif partition in taken:
                    taken[partition] += records
                else:
                    taken[partition] = records
                count_max -= len(records)
            if count_max <= 0:
                break
        if freed:
            self._wake()
        return taken

    async def fetch_batches(
        self, partition: TopicPartition, offset: int, max_bytes: int, *, max_wait_ms: int = 0
    ) -> FetchedBatches:
        """One fetch from the leader, undecoded: for readers that decode many batches at once."""

        async def attempt() -> FetchedBatches:
            await self.cluster.topic(partition.topic, self._timeout_ms)
            connection = await self.cluster.connection(self.cluster.leader_or_raise(*partition))
            request = self._request({partition: offset}, max_bytes, max_bytes, max_wait_ms)
            version = self._fetch_version(connection, [partition])
            response = await connection.request(
                request, version=version, timeout_ms=max_wait_ms + self._request_timeout_ms
            )
            code, answer = response.error_code, None
            if response.responses and response.responses[0].partitions:
                answer = response.responses[0].partitions[0]
                code = code or answer.error_code
            if code or answer is None:
                error = Errors.of(code) if code else Errors.UNKNOWN_TOPIC_OR_PARTITION
                what = f"fetch of {partition} at offset {offset}"
                raise KafkaError(error, what, node=connection.address)
            data = memoryview(answer.records or b"")
            return FetchedBatches(
                data,
                next_fetch_offset(data, offset),
                answer.high_watermark,
                answer.last_stable_offset,
                answer.log_start_offset,
                self._aborted(answer),
            )

        what = f"fetch of {partition}"
        batches: FetchedBatches = await self.cluster.repeat(
            attempt, what, self._timeout_ms, refresh=[partition.topic]
        )
        return batches

    # --- one task per broker

    @property
    def _request_timeout_ms(self) -> int:
        return self.values.get_int("request.timeout.ms")

    def _wake(self) -> None:
        """Something about the assignment changed: everybody looks again."""
        if any(state.position is None for state in self._assigned.values()):
            self._housekeeping.set()
        if self._leaders_are_missing():
            self._housekeeping.set()
        self._wake_fetchers()

    def _wake_fetchers(self) -> None:
        """Lets the fetcher of every leader look again; starts those that are missing."""
        if self._tasks is None:
            return
        for partition in self._assigned:
            leader = self.cluster.metadata.leader_of(*partition)
            if leader != NO_NODE and leader not in self._fetchers:
                event = self._fetchers[leader] = asyncio.Event()
                self._running.append(self._tasks.create_task(self._fetch_from(leader, event)))
        for event in self._fetchers.values():
            event.set()

    async def _fetch_from(self, node_id: int, event: asyncio.Event) -> None:
        backoff = self.cluster.reconnect_backoff()
        while not self._is_closed:
            event.clear()
            wanted = self._fetchable(node_id)
            if not wanted:
                await event.wait()
                continue
            try:
                connection = await self.cluster.connection(node_id)
                request = self._request(
                    wanted,
                    self.values.get_int("max.partition.fetch.bytes"),
                    self.values.get_int("fetch.max.bytes"),
                    self.values.get_int("fetch.max.wait.ms"),
                    self.values.get_int("fetch.min.bytes"),
                )
                version = self._fetch_version(connection, wanted)
                response = await connection.request(request, version=version)
                if self._take_response(wanted, response, connection.address):
                    backoff.reset()
                    continue
            except ClientError as error:
                if not error.retriable:
                    self._fail(error)
            self._metadata_is_stale = True
            self._housekeeping.set()
            await asyncio.sleep(backoff.next_ms() / 1000)

    def _fetchable(self, node_id: int) -> dict[TopicPartition, int]:
        """The partitions to fetch from a broker, and from which offset."""
        leader_of = self.cluster.metadata.leader_of
        return {
            partition: state.fetch_offset
            for partition, state in self._assigned.items()
            if state.position is not None
            and not state.is_paused
            and len(state.chunks) < CLIENT_FETCHED_CHUNKS_MAX
            and leader_of(*partition) == node_id
        }

    def _request(
        self,
        wanted: Mapping[TopicPartition, int],
        partition_bytes_max: int,
        bytes_max: int,
        wait_ms: int,
        bytes_min: int = 1,
    ) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for (name, partition), offset in wanted.items():
            topic = topics.get(name)
            if topic is None:
                known = self.cluster.metadata.topics.get(name)
                topic_id = UUID_ZERO if known is None else known.topic_id
                topic = topics[name] = FetchTopic(topic=name, topic_id=topic_id, partitions=[])
            known_partition = self.cluster.metadata.partition(name, partition)
            topic.partitions.append(
                FetchPartition(
                    partition=partition,
                    current_leader_epoch=-1
                    if not known_partition
                    else known_partition.leader_epoch,
                    fetch_offset=offset,
                    partition_max_bytes=partition_bytes_max,
                )
            )
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=bytes_min,
            max_bytes=bytes_max,
            isolation_level=self._isolation_level,
            topics=list(topics.values()),
            forgotten_topics_data=[],
            rack_id=self.values.get_string("client.rack"),
        )

    def _fetch_version(self, connection: Connection, wanted: Iterable[TopicPartition]) -> int:
        """Topics without ids, which old clusters have, need the older versions."""
        for partition in wanted:
            topic = self.cluster.metadata.topics.get(partition.topic)
            if topic is None or topic.topic_id == UUID_ZERO:
                return connection.version_of(ApiKey.FETCH, _TOPIC_ID_VERSION - 1)
        return connection.version_of(ApiKey.FETCH)

    def _take_response(
        self, wanted: Mapping[TopicPartition, int], response: Any, address: str
    ) -> bool:
        """Keeps what came; False if something failed, so that the fetcher pauses."""
        if response.error_code:
            raise KafkaError(Errors.of(response.error_code), "fetch", node=address)
        is_well = True
        for topic in response.responses:
            name = topic.topic or self.cluster.metadata.topic_names.get(topic.topic_id, "")
            for answer in topic.partitions:
                partition = TopicPartition(name, answer.partition_index)
                state = self._assigned.get(partition)
                # A seek or a new assignment made this answer worthless.
                if state is None or state.fetch_offset != wanted.get(partition):
                    continue
                if answer.error_code:
                    is_well = False
                    self._take_error(partition, state, Errors.of(answer.error_code), address)
                elif answer.records:
                    self._keep(partition, state, answer)
                state.high_watermark = max(state.high_watermark, answer.high_watermark)
        return is_well

    def _keep(self, partition: TopicPartition, state: _Assigned, answer: Any) -> None:
        offset = state.fetch_offset
        try:
            state.fetch_offset = next_fetch_offset(answer.records, offset)
        except RecordsError as error:
            self._fail(_damaged(partition, offset, error))
            return
        state.chunks.append(
            FetchedRecords(
                answer.records,
                offset,
                aborted=self._aborted(answer),
                checks_crcs=self._checks_crcs,
            )
        )
        self._arrived.set()

    def _aborted(self, answer: Any) -> list[tuple[int, int]] | None:
        if self._isolation_level == READ_UNCOMMITTED:
            return None
        return [(one.first_offset, one.producer_id) for one in answer.aborted_transactions or ()]

    def _take_error(
        self, partition: TopicPartition, state: _Assigned, error: Errors, address: str
    ) -> None:
        if error is Errors.OFFSET_OUT_OF_RANGE and state.reset_to is not None:
            state.position = None
        elif error not in _STALE_METADATA:
            what = f"fetch of {partition} at offset {state.fetch_offset}"
            self._fail(KafkaError(error, what, node=address))

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self._arrived.set()

    # --- housekeeping

    async def _keep_house(self) -> None:
        """Metadata, and positions that are not known."""
        backoff = self.cluster.backoff()
        while not self._is_closed:
            self._housekeeping.clear()
            try:
                if self._assigned and (self._metadata_is_stale or self._leaders_are_missing()):
                    self._metadata_is_stale = False
                    await self.cluster.fetch_metadata({name.topic for name in self._assigned})
                await self._resolve(
                    [name for name, state in self._assigned.items() if state.position is None]
                )
            except ClientError as error:
                if not error.retriable:
                    self._fail(error)
                self._metadata_is_stale = True
            self._wake_fetchers()
            if self._metadata_is_stale or self._leaders_are_missing():
                await asyncio.sleep(backoff.next_ms() / 1000)
                continue
            backoff.reset()
            try:
                # New leaders are looked for at the latest when metadata is too old.
                async with asyncio.timeout(self.values.get_int("metadata.max.age.ms") / 1000):
                    await self._housekeeping.wait()
            except TimeoutError:
                self._metadata_is_stale = True

    def _leaders_are_missing(self) -> bool:
        leader_of = self.cluster.metadata.leader_of
        return any(leader_of(*partition) == NO_NODE for partition in self._assigned)

    async def _resolve(self, partitions: Iterable[TopicPartition]) -> None:
        """Looks up where to begin, as ``auto.offset.reset`` says."""
        wanted: dict[TopicPartition, int] = {}
        for partition in partitions:
            reset_to = self._state(partition).reset_to
            if reset_to is None:
                raise ClientError(
                    f"{partition} has no position and auto.offset.reset is none; seek first"
                )
            wanted[partition] = reset_to
        if not wanted:
            return
        for partition, found in (await self._list(wanted)).items():
            state = self._assigned.get(partition)
            if state is not None and state.position is None:
                state.move(max(0, found.offset))

    def _reset_time(self) -> int | None:
        policy = self.values.get_string("auto.offset.reset").lower()
        if policy == "earliest":
            return EARLIEST
        if policy == "latest":
            return LATEST
        if policy == "none":
            return None
        return time.time_ns() // 1_000_000 - duration_ms(policy.partition(":")[2])


def _damaged(partition: TopicPartition, offset: int, error: RecordsError) -> KafkaError:
    what = f"records of {partition} from offset {offset} on cannot be read"
    return KafkaError(Errors.CORRUPT_MESSAGE, what, message=str(error))
