"""The manager on real logs of simulated disks, a store in memory, and metadata in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from kaa.log.append import append_as_leader
from kaa.log.errors import StorageError
from kaa.log.log import FetchIsolation, UnifiedLog
from kaa.log.retention import delete_old_segments
from kaa.log.sim_files import Fault, SimFiles
from kaa.records.batch import iter_batches
from kaa.testing.clock import Clock
from kaa.tier.deletions import MemoryDeletions
from kaa.tier.manager import Led, Pace, RemoteLogManager, epochs_of
from kaa.tier.metadata.cache import RemoteLogCache
from kaa.tier.metadata.machine import RemoteMetadataError
from kaa.tier.metadata.model import (
    PartitionDeleteState,
    PartitionDeletion,
    SegmentMetadata,
    SegmentState,
)
from kaa.tier.metadata.port import MemoryMetadata
from kaa.tier.metadata.records import RemoteLogEvent
from kaa.tier.reading.cache import SegmentCache
from kaa.tier.reading.reader import RemoteReader
from kaa.tier.store.layout import Part, parse_name
from kaa.tier.store.objects import MemoryStore, StoreError
from kaa.tier.store.segments import RemoteSegments, WrittenObject
from tests.unit.log.batches import batch
from tests.unit.log.logs import SMALL, new_disk, new_log
from tests.unit.tier.metadata.samples import PARTITION

TIERED = replace(SMALL, remote_storage_enable=True, local_retention_bytes=0, retention_ms=-1)


class FaultyStore(MemoryStore):
    """Fails at the Nth call that changes something."""

    def __init__(self) -> None:
        super().__init__()
        self.fails_at = -1
        self.calls = 0

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self.fails_at:
            raise StoreError("the store did not answer")

    async def put(self, name: str, source: Path | bytes) -> None:
        self._count()
        await super().put(name, source)

    async def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._count()
            await super().delete([name])


class FaultyMetadata(MemoryMetadata):
    def __init__(self) -> None:
        super().__init__()
        self.fails_at = -1
        self.events: list[RemoteLogEvent] = []

    async def publish(self, event: RemoteLogEvent) -> None:
        if len(self.events) + 1 == self.fails_at:
            self.fails_at = -1
            raise RemoteMetadataError("the topic cannot be written")
        self.events.append(event)
        await super().publish(event)


class Node:
    def __init__(self, log: UnifiedLog, tasks: asyncio.TaskGroup) -> None:
        self.log = log
        self.store = FaultyStore()
        self.metadata = FaultyMetadata()
        self.clock = Clock()
        self.reports: list[str] = []
        segments = RemoteSegments(self.store)
        cache = SegmentCache(segments, tasks, index_bytes_max=1 << 20, chunk_bytes_max=1 << 20)
        self.reader = RemoteReader(cache)
        self.manager = RemoteLogManager(
            1,
            self.metadata,
            segments,
            cache,
            executor=ThreadPoolExecutor(1),
            clock=self.clock,
            random=Random(1),
            report=self.reports.append,
        )
        self.manager.lead(PARTITION, 0, log)
        self.led = Led(PARTITION, 0, log)

    @property
    def cache(self) -> RemoteLogCache:
        return self.metadata.user(PARTITION).cache

    def states(self) -> list[SegmentState]:
        return [segment.state for segment in self.cache.segments()]

    def check_objects(self) -> None:
        """No object without metadata."""
        ids = {segment.segment_id for segment in self.cache.segments()}
        for name in self.store.objects:
            found = parse_name(name)
            assert found is not None
            assert found.segment_id in ids, name


@asynccontextmanager
async def node(log: UnifiedLog) -> AsyncIterator[Node]:
    async with asyncio.TaskGroup() as tasks:
        yield Node(log, tasks)


def story(work: Callable[[Node], Awaitable[None]], log: UnifiedLog | None = None) -> None:
    async def run() -> None:
        async with node(log or filled()) as made:
            await work(made)

    asyncio.run(run())


def filled(batches: int = 24) -> UnifiedLog:
    log = new_log(new_disk(), TIERED)
    for number in range(batches):
        append_as_leader(log, batch(2, timestamp=10 * number), leader_epoch=number // 10, now_ms=0)
    log.update_high_watermark(log.log_end_offset)
    log.flush(0)
    return log


def everything(log: UnifiedLog) -> bytes:
    found, offset = b"", log.local_log_start_offset
    while offset < log.log_end_offset:
        result = log.read(offset, bytes_max=10_000, isolation=FetchIsolation.LOG_END)
        assert result.region is not None
        found += result.region.read()
        offset = list(iter_batches(found))[-1].next_offset
    return found


async def history(made: Node) -> bytes:
    """What a reader gets from the start of the log to its end."""
    found, offset, log = b"", made.log.log_start_offset, made.log
    while offset < log.local_log_start_offset:
        got = await made.reader.read(
            made.cache,
            epochs_of(log),
            offset,
            end_offset=log.high_watermark,
            bytes_max=10_000,
            min_one=True,
        )
        assert got.data
        found, offset = found + got.data, got.next_offset
    rest = [one for one in iter_batches(everything(log)) if one.base_offset >= offset]
    return found + b"".join(bytes(one.view) for one in rest)


def test_closed_segments_are_copied_once_and_then_leave_the_disk() -> None:
    async def work(made: Node) -> None:
        log, before = made.log, everything(made.log)
        await made.manager.copy(made.led)
        closed = len(log.segments) - 1
        assert made.states() == [SegmentState.COPY_SEGMENT_FINISHED] * closed
        assert log.copied_offset == log.segments.active.base_offset - 1
        writes = made.store.calls
        await made.manager.copy(made.led)
        assert made.store.calls == writes
        delete_old_segments(log, now_ms=0)
        assert len(log.segments) == 1
        assert log.log_start_offset == 0
        assert await history(made) == before
        parts = {parse_name(name).part for name in made.store.objects}  # type: ignore[union-attr]
        assert parts == set(Part) - {Part.TXN_INDEX}

    story(work)


def test_only_what_lies_below_the_last_stable_offset_is_copied() -> None:
    log = filled(6)
    opened = batch(2, producer_id=5, producer_epoch=0, sequence=0, transactional=True)
    append_as_leader(log, opened, leader_epoch=0, now_ms=0)
    stable = log.log_end_offset - 2
    for number in range(20):
        append_as_leader(log, batch(2, timestamp=number), leader_epoch=0, now_ms=0)
    log.update_high_watermark(log.log_end_offset)

    async def work(made: Node) -> None:
        await made.manager.copy(made.led)
        assert all(segment.end_offset < stable for segment in made.cache.segments())
        assert made.log.copied_offset < stable

    story(work, log)


def test_expiry_moves_the_start_and_removes_objects() -> None:
    async def work(made: Node) -> None:
        log = made.log
        await made.manager.copy(made.led)
        delete_old_segments(log, now_ms=0)
        log.config = replace(TIERED, retention_bytes=2 * 594)
        await made.manager.expire(made.led)
        assert log.log_start_offset > 0
        assert all(one.start_offset >= log.log_start_offset for one in made.cache.segments())
        made.check_objects()
        log.increment_log_start_offset(log.high_watermark)
        await made.manager.expire(made.led)
        assert made.store.objects == {}
        assert len(made.cache) == 0

    story(work)


@pytest.mark.parametrize("fails_at", range(1, 16))
def test_a_store_that_fails_at_any_call(fails_at: int) -> None:
    async def work(made: Node) -> None:
        before = everything(made.log)
        made.store.fails_at = fails_at
        with pytest.raises(StoreError):
            await made.manager.copy(made.led)
        made.check_objects()
        # What is not copied stays on the disk, and the next round does the rest.
        delete_old_segments(made.log, now_ms=0)
        assert await history(made) == before
        await made.manager.copy(made.led)
        await made.manager.expire(made.led)
        assert set(made.states()) == {SegmentState.COPY_SEGMENT_FINISHED}
        made.check_objects()
        assert await history(made) == before

    story(work)


@pytest.mark.parametrize("fails_at", range(1, 7))
def test_metadata_that_cannot_be_written_at_any_step(fails_at: int) -> None:
    async def work(made: Node) -> None:
        before = everything(made.log)
        made.metadata.fails_at = fails_at
        with pytest.raises(RemoteMetadataError):
            await made.manager.copy(made.led)
        delete_old_segments(made.log, now_ms=0)
        assert await history(made) == before
        await made.manager.copy(made.led)
        await made.manager.expire(made.led)
        assert set(made.states()) == {SegmentState.COPY_SEGMENT_FINISHED}
        made.check_objects()

    story(work)


def test_a_new_leader_starts_no_lower_than_the_store() -> None:
    async def work(made: Node) -> None:
        await made.manager.copy(made.led)
        delete_old_segments(made.log, 0)
        made.log.config = replace(TIERED, retention_bytes=1_500)
        await made.manager.expire(made.led)
        start = made.log.log_start_offset
        assert 0 < start < made.log.local_log_start_offset
        # A crash before the checkpoint of the start.
        made.log.log_start_offset = 0
        made.manager._settle_start(Led(PARTITION, 1, made.log))
        assert made.log.log_start_offset == start

    story(work)


def test_a_copy_that_a_newer_leader_took_for_a_leftover_leaves_no_objects() -> None:
    async def work(made: Node) -> None:
        copy = made.manager._segments.copy

        async def slow(segment: SegmentMetadata, parts: Mapping[Part, Path | bytes]) -> None:
            await copy(segment, parts)
            await made.manager._delete_one(segment)
            await copy(segment, parts)

        made.manager._segments.copy = slow  # type: ignore[method-assign]
        with pytest.raises(StoreError, match="led by another broker"):
            await made.manager.copy(made.led)
        assert made.store.objects == {}
        assert made.log.copied_offset == -1

    story(work)


def test_followers_learn_how_far_the_store_is() -> None:
    async def work(made: Node) -> None:
        await made.manager.copy(made.led)
        copied, made.log.copied_offset = made.log.copied_offset, -1
        follower = Led(PARTITION, 1, made.log, is_leader=False)
        assert await made.manager._tend(follower)
        assert made.log.copied_offset == copied > 0

    story(work)


def test_copies_wait_for_their_quota() -> None:
    async def work(made: Node) -> None:
        made.manager._pace = lambda: Pace(copy_bytes_per_second_max=50)
        copying = asyncio.ensure_future(made.manager.copy(made.led))  # noqa: TID251  Cancelled.
        until = asyncio.get_running_loop().time() + 30
        while not made.log.copied_offset > 0:
            await asyncio.sleep(0.005)
            assert asyncio.get_running_loop().time() < until
        await asyncio.sleep(0.05)
        # One segment is more than a window may hold; the next one waits.
        assert len(made.cache) == 1
        copying.cancel()

    story(work)


def test_a_leader_that_is_replaced_stops() -> None:
    async def work(made: Node) -> None:
        made.led.is_over = True
        await made.manager.copy(made.led)
        assert made.store.objects == {}

    story(work)


def test_a_deleted_topic_leaves_nothing() -> None:
    async def work(made: Node) -> None:
        await made.manager.copy(made.led)
        made.store.fails_at = made.store.calls + 4
        with pytest.raises(StoreError):
            await made.manager.delete_partition(PARTITION)
        # Again, as after a crash.
        await made.manager.delete_partition(PARTITION)
        assert made.store.objects == {}
        user = made.metadata.user(PARTITION)
        assert (user.deletion, len(user.cache)) == (None, 0)
        last = made.metadata.events[-1]
        assert isinstance(last, PartitionDeletion)
        assert last.state is PartitionDeleteState.DELETE_PARTITION_FINISHED

    story(work)


def test_a_deletion_goes_on_after_a_restart() -> None:
    async def work(made: Node) -> None:
        await made.manager.copy(made.led)
        deletions = MemoryDeletions()
        made.manager._deletions = deletions
        # The store answers no more, and the node is killed meanwhile.
        made.store.fails_at = made.store.calls + 4
        made.manager._pace = lambda: Pace(interval_ms=1, backoff_ms=60_000)
        made.manager.remove(PARTITION)
        running = asyncio.ensure_future(made.manager.run())  # noqa: TID251  Cancelled below.
        async with asyncio.timeout(30):
            while not made.reports:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        running.cancel()
        assert deletions.kept == [PARTITION]
        assert made.store.objects
        # The next one hears nothing of the topic, which is gone.
        async with asyncio.TaskGroup() as tasks:
            segments = RemoteSegments(made.store)
            cache = SegmentCache(segments, tasks, index_bytes_max=1, chunk_bytes_max=1)
            restarted = RemoteLogManager(
                1,
                made.metadata,
                segments,
                cache,
                executor=ThreadPoolExecutor(1),
                clock=made.clock,
                random=Random(2),
                report=made.reports.append,
                deletions=deletions,
            )
            running = tasks.create_task(restarted.run())
            async with asyncio.timeout(30):
                while deletions.kept:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            running.cancel()
        assert made.store.objects == {}
        assert len(made.metadata.user(PARTITION).cache) == 0

    story(work)


def test_rounds_go_on_and_faults_are_said_once() -> None:
    async def rounds(made: Node) -> None:
        made.manager._pace = lambda: Pace(interval_ms=1)
        made.store.fails_at = 3
        running = asyncio.ensure_future(made.manager.run())  # noqa: TID251  Cancelled below.
        async with asyncio.timeout(30):
            while len(made.cache) < len(made.log.segments) - 1 or not made.reports:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        running.cancel()
        assert len(made.reports) == 1
        assert "remote log of orders-3: the store did not answer" in made.reports[0]

    story(rounds)


@pytest.mark.parametrize("name", [".log", ".index", ".snapshot"])
def test_a_disk_that_cannot_be_read_is_offline_and_leaves_no_objects(name: str) -> None:
    async def work(made: Node) -> None:
        files = made.log.directory.files
        assert isinstance(files, SimFiles)
        made.log.rest()
        files.faults = [Fault("open", name)]
        with pytest.raises(StorageError):
            await made.manager.copy(made.led)
        assert not made.log.directory.is_online
        assert not made.store.objects
        assert made.states() == []

    story(work)


def test_a_log_that_goes_meanwhile_costs_no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: object) -> WrittenObject:
        raise FileNotFoundError

    monkeypatch.setattr("kaa.tier.manager.checksum", gone)

    async def work(made: Node) -> None:
        with pytest.raises(FileNotFoundError):
            await made.manager.copy(made.led)
        assert made.log.directory.is_online

    story(work)
