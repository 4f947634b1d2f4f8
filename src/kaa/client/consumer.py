"""The consumer: of partitions that its user assigns, or that a group shares out.

::

    settings = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}
    async with Consumer(settings) as consumer:
        consumer.subscribe(["orders"])
        async for record in consumer:
            ...

    async with Consumer({"bootstrap.servers": "localhost:9092"}) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        await consumer.seek_to_beginning()
        for partition, records in (await consumer.poll()).items():
            ...

Records are fetched in the background (``fetcher``). A consumer with a ``group.id`` that subscribes
takes part in the group (``group.membership``): rebalances, their listener and commits in the
background happen inside ``poll``, as in Java, so that no partition is given away while the
application still works on what the last poll gave it.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple, Self
from uuid import uuid4

from kaa.client.cluster import Cluster
from kaa.client.errors import ClientError, ClosedError
from kaa.client.fetch_request import FetchBounds, FetchedBatches, fetch_batches
from kaa.client.fetcher import Fetcher
from kaa.client.metadata import TopicPartition
from kaa.client.offsets import EARLIEST, LATEST
from kaa.client.waiting import wait_for_event
from kaa.config.client import consumer_values
from kaa.wire.primitives import Uuid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from random import Random

    from kaa.client.group.membership import GroupMetadata, Membership, RebalanceListener
    from kaa.client.group_offsets import OffsetAndMetadata
    from kaa.client.offsets import OffsetAndTimestamp
    from kaa.records.record import Header, Record

__all__ = ["Consumer", "ConsumerRecord", "FetchedBatches"]


class ConsumerRecord(NamedTuple):
    """A record with the name of its partition, for those who iterate over single records."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class Consumer:
    """See the module's text. Settings have the names and defaults of Java's consumer."""

    def __init__(self, settings: Mapping[str, str], *, random: Random | None = None) -> None:
        self.values = consumer_values(settings)
        self.cluster = Cluster(self.values, random)
        self._membership: Membership | None = None
        has_group = self.values.value("group.id") is not None
        self._fetcher = Fetcher(
            self.values, self.cluster, self._find_committed if has_group else None
        )
        if has_group:
            from kaa.client.group.membership import Membership

            member_id = str(Uuid(uuid4().bytes))
            self._membership = Membership(self.values, self.cluster, self._fetcher, member_id)
        self._poll_records_max = self.values.get_int("max.poll.records")
        self._timeout_ms = self.values.get_int("default.api.timeout.ms")
        self._tasks: asyncio.TaskGroup | None = None
        self._stack = AsyncExitStack()
        self._is_closed = False

    # --- life

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.cluster)
        self._tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
        self._fetcher.start(self._tasks)
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Commits if that is wanted, leaves the group, and stops."""
        try:
            if self._membership is not None:
                await self._membership.leave()
        finally:
            self._is_closed = True
            self._fetcher.stop()
            await self._stack.aclose()

    def _running(self) -> asyncio.TaskGroup:
        if self._is_closed or self._tasks is None:
            raise ClosedError("the consumer is not running; use it inside 'async with'")
        return self._tasks

    # --- subscription and assignment

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Reads these topics, or all that match a pattern, together with the rest of the group.

        The pattern is one of Python, applied to whole names, or with ``group.protocol=consumer``
        one of RE2 that the broker applies.
        """
        membership = self._group()
        if self._fetcher.assigned and not membership.is_subscribed:
            raise ClientError("the consumer has assigned partitions; unsubscribe() first")
        if not isinstance(topics, str):
            topics = frozenset(topics)
            if bool(topics) == (pattern is not None):
                raise ValueError("give topics or a pattern")
        membership.subscribe(self._running(), topics, pattern, listener)

    async def unsubscribe(self) -> None:
        """Leaves the group, or gives up assigned partitions."""
        if self._membership is not None and self._membership.is_subscribed:
            await self._membership.leave()
            self._membership = self._membership.rejoining()
        self._fetcher.assign([])

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions from now on, whatever others do; known ones keep their place."""
        if self._membership is not None and self._membership.is_subscribed:
            raise ClientError("the consumer is subscribed to topics; unsubscribe() first")
        self._fetcher.assign(partitions)

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        return tuple(self._fetcher.assigned)

    def _group(self) -> Membership:
        if self._membership is None:
            raise ClientError("groups need a group.id in the settings")
        return self._membership

    def group_metadata(self) -> GroupMetadata:
        """Who this member is, for ``Producer.send_offsets_to_transaction``."""
        return self._group().metadata()

    # --- positions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """The next poll hands out the record with this offset, or the first one behind it."""
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        self._fetcher.state(partition).move(offset)
        self._fetcher.wake()

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        await self._seek_to(partitions, EARLIEST)

    async def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        await self._seek_to(partitions, LATEST)

    async def _seek_to(self, partitions: Iterable[TopicPartition], time_ms: int) -> None:
        wanted = dict.fromkeys(partitions or self.assignment, time_ms)
        for partition, found in (await self._fetcher.list_offsets(wanted)).items():
            self.seek(partition, found.offset)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that a poll hands out."""
        state = self._fetcher.state(partition)
        if state.position is None:
            await self._fetcher.resolve([partition])
        assert state.position is not None
        return state.position

    def high_watermark(self, partition: TopicPartition) -> int:
        """The end of the partition for consumers, as last heard; -1 if nothing was fetched."""
        return self._fetcher.state(partition).high_watermark

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._fetcher.state(partition).is_paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._fetcher.state(partition).is_paused = False
        self._fetcher.wake()

    @property
    def paused(self) -> tuple[TopicPartition, ...]:
        return tuple(one for one, state in self._fetcher.assigned.items() if state.is_paused)

    # --- commits

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> None:
        """Commits these offsets, or how far the last poll came, and waits until it is done."""
        await self._group().commit(self._to_commit(offsets), self._timeout_ms)

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> asyncio.Future[None]:
        """As ``commit``, tried once, without waiting; the outcome may be awaited or left."""
        membership, given = self._group(), self._to_commit(offsets)
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            try:
                if given:
                    await membership.commit_once(given)
            except ClientError as error:
                if not outcome.done():
                    outcome.set_exception(error)
                    outcome.exception()
            else:
                if not outcome.done():
                    outcome.set_result(None)

        membership.begin_commit(self._running(), work())
        return outcome

    def _to_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        from kaa.client.group_offsets import OffsetAndMetadata

        self._running()
        if offsets is None:
            return self._group().positions()
        return {
            TopicPartition(*partition): OffsetAndMetadata(given)
            if isinstance(given, int)
            else given
            for partition, given in offsets.items()
        }

    async def committed(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group committed in these partitions, or in those assigned; others are absent."""
        wanted = self.assignment if partitions is None else tuple(partitions)
        if not wanted:
            return {}
        return await self._group().committed(wanted, self._timeout_ms)

    async def _find_committed(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        found = await self._group().committed(partitions, self._timeout_ms)
        return {partition: committed.offset for partition, committed in found.items()}

    # --- offsets

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        found = await self.cluster.topic(topic, self._timeout_ms)
        return [TopicPartition(topic, one.partition) for one in found.partitions]

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        found = await self._fetcher.list_offsets(dict.fromkeys(partitions, EARLIEST))
        return {partition: answer.offset for partition, answer in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Ends for this isolation level: under read_committed the last stable offset."""
        found = await self._fetcher.list_offsets(dict.fromkeys(partitions, LATEST))
        return {partition: answer.offset for partition, answer in found.items()}

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or behind a time; None where there is none."""
        if any(time_ms < 0 for time_ms in times_ms.values()):
            raise ValueError("times are milliseconds since 1970 and not negative")
        found = await self._fetcher.list_offsets(times_ms)
        return {
            partition: answer if answer.offset >= 0 else None for partition, answer in found.items()
        }

    # --- records

    async def poll(
        self, timeout_ms: int | None = None, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record]]:
        """The next records by partition; waits for the first, at most so long (None: for ever)."""
        tasks = self._running()
        count_max = max_records or self._poll_records_max
        membership, fetcher = self._membership, self._fetcher
        is_member = membership is not None and membership.is_subscribed
        deadline: float | None = None
        while True:
            if is_member:
                assert membership is not None
                await membership.poll(tasks)
            records = fetcher.take(count_max)
            if records or timeout_ms == 0:
                return records
            # Nothing can have come since, for nobody else ran.
            fetcher.arrived.clear()
            if timeout_ms is None:
                await fetcher.arrived.wait()
                continue
            now = asyncio.get_running_loop().time()
            if deadline is None:
                deadline = now + timeout_ms / 1000
            if not await wait_for_event(fetcher.arrived, (deadline - now) * 1000):
                return records

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        while True:
            for (topic, partition), records in (await self.poll()).items():
                for offset, timestamp, key, value, headers, _ in records:
                    yield ConsumerRecord(topic, partition, offset, timestamp, key, value, headers)

    async def fetch_batches(
        self, partition: TopicPartition, offset: int, max_bytes: int, *, max_wait_ms: int = 0
    ) -> FetchedBatches:
        """One fetch from the leader, undecoded: for readers that decode many batches at once."""
        bounds = FetchBounds(
            partition_bytes_max=max_bytes,
            bytes_max=max_bytes,
            wait_ms=max_wait_ms,
            isolation_level=self._fetcher.isolation_level,
            rack_id=self.values.get_string("client.rack"),
        )
        return await fetch_batches(
            self.cluster, TopicPartition(*partition), offset, bounds, self._timeout_ms
        )
