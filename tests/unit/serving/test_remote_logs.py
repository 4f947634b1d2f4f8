"""Tiered storage as partitions and fetches meet it, on logs, metadata and a store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random

import pytest

from kaa.log.config import LogConfig
from kaa.log.errors import LogError
from kaa.log.log import FetchIsolation
from kaa.log.rebuild import begin_rebuild
from kaa.log.retention import delete_old_segments
from kaa.records.batch import iter_batches
from kaa.serving.remote_logs import ReadBounds, RemoteLogs, RemoteRead, tier_id
from kaa.testing.clock import Clock
from kaa.tier.manager import Led, RemoteLogManager
from kaa.tier.metadata.machine import NotReadyError
from kaa.tier.metadata.port import MemoryMetadata
from kaa.tier.quota import QuotaWindow
from kaa.tier.reading.cache import SegmentCache
from kaa.tier.reading.reader import RemoteReader
from kaa.tier.store.objects import MemoryStore
from kaa.tier.store.segments import RemoteSegments
from kaa.wire.errors import Errors
from kaa.wire.messages.metadata_topics import RemoveTopicRecord
from tests.unit.log.batches import batch
from tests.unit.replication.support import TOPIC_ID, Replicas, partition

CONFIG = LogConfig(
    segment_bytes=600, remote_storage_enable=True, local_retention_bytes=0, retention_ms=-1
)
UNCOMMITTED, COMMITTED = FetchIsolation.HIGH_WATERMARK, FetchIsolation.TXN_COMMITTED


class World:
    """One broker that leads one tiered partition."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.store, self.clock, self.bounds = MemoryStore(), Clock(), ReadBounds()
        self.reports: list[str] = []
        segments = RemoteSegments(self.store)
        cache = SegmentCache(segments, tasks, index_bytes_max=1 << 20, chunk_bytes_max=1)
        self.manager = RemoteLogManager(
            1,
            MemoryMetadata(),
            segments,
            cache,
            executor=ThreadPoolExecutor(1),
            clock=self.clock,
            random=Random(1),
            report=self.reports.append,
        )
        reader = RemoteReader(cache)
        self.tier = RemoteLogs(self.manager, reader, self.clock, lambda: self.bounds, QuotaWindow())
        self.replicas = Replicas(config=CONFIG)
        self.replicas.manager.remote = self.tier
        self.partition = self.replicas.create()
        self.log = self.partition.online_log()

    @property
    def led(self) -> dict[int, Led]:
        return {one.partition: led for one, led in self.manager._led.items()}

    async def fill(self) -> None:
        """A log whose first half is in the store alone."""
        for number in range(20):
            self.partition.append(batch(2, timestamp=10 * number), now_ms=0)
        await self.manager.copy(self.led[0])
        self.log.flush(0)
        assert delete_old_segments(self.log, 0) > 2
        assert 0 == self.log.log_start_offset < self.log.local_log_start_offset

    async def read(self, offset: int, isolation: FetchIsolation = UNCOMMITTED) -> RemoteRead:
        return await self.tier.read(
            self.partition, offset, bytes_max=100, min_one=True, isolation=isolation
        )


def story(work: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            await work(World(tasks))

    asyncio.run(run())


def test_partitions_are_led_followed_and_given_up() -> None:
    async def work(world: World) -> None:
        assert world.led[0].is_leader
        world.replicas.replay(partition((1, 2), leader=2, epoch=1))
        assert (world.led[0].is_leader, world.led[0].leader_epoch) == (False, 1)
        world.replicas.replay(partition((1, 2), leader=1, epoch=2))
        led = world.led[0]
        assert (led.is_leader, led.leader_epoch) == (True, 2)
        world.replicas.replay(partition((2,), leader=2, epoch=3))
        assert (world.led, led.is_over, world.manager._removed) == ({}, True, {})

    story(work)


def test_a_deleted_topic_is_cleared_away_by_its_leader() -> None:
    async def work(world: World) -> None:
        await world.fill()
        world.replicas.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
        assert list(world.manager._removed) == [tier_id(world.partition)]
        await world.manager.delete_partition(tier_id(world.partition))
        assert world.store.objects == {}

    story(work)


def test_a_topic_that_leaves_the_tier_begins_where_its_disk_does() -> None:
    async def work(world: World) -> None:
        await world.fill()
        off = replace(CONFIG, remote_storage_enable=False, remote_log_delete_on_disable=True)
        world.log.config = off
        world.tier.update(world.partition)
        assert world.log.log_start_offset == world.log.local_log_start_offset > 0
        assert list(world.manager._removed) == [tier_id(world.partition)]

    story(work)


def test_reads_give_whole_batches_and_count_them() -> None:
    async def work(world: World) -> None:
        await world.fill()
        found = await world.read(3)
        assert next(iter(iter_batches(found.data))).base_offset == 2
        assert found.aborted is None
        assert (await world.read(3, COMMITTED)).aborted == []
        counters = world.manager.counters
        assert (counters.fetch_requests, counters.fetch_errors) == (2, 0)
        assert counters.fetched_bytes == 2 * len(found.data)
        by_time = await world.tier.find_by_time(world.partition, 11)
        assert by_time == (11, 3, 0)

    story(work)


def test_what_went_wrong_is_told_apart() -> None:
    async def work(world: World) -> None:
        await world.fill()
        objects, world.store.objects = world.store.objects, {}
        for _ in range(2):
            with pytest.raises(LogError) as failure:
                await world.read(0)
            assert failure.value.error is Errors.UNKNOWN_SERVER_ERROR
        assert len(world.reports) == 1
        assert "remote log of t-0 cannot be read" in world.reports[0]
        world.store.objects = objects
        # Metadata that lags behind does not mean that there are no such records.
        world.log.local_log_start_offset = world.log.log_end_offset
        with pytest.raises(LogError) as failure:
            await world.read(world.log.log_end_offset - 1)
        assert failure.value.error is Errors.OFFSET_NOT_AVAILABLE
        world.log.increment_log_start_offset(10)
        with pytest.raises(LogError) as failure:
            await world.read(0)
        assert failure.value.error is Errors.OFFSET_OUT_OF_RANGE

    story(work)


def test_a_follower_gets_what_comes_with_a_segment() -> None:
    async def work(world: World) -> None:
        await world.fill()
        local = world.log.local_log_start_offset
        state = await world.tier.state_before(world.partition, 0, local)
        assert (state.next_offset, state.epochs) == (local, [(0, 0)])
        begin_rebuild(world.log, state, 0, 0).settle()
        assert (world.log.log_start_offset, world.log.log_end_offset) == (0, local)
        with pytest.raises(LogError) as failure:
            await world.tier.state_before(world.partition, 1, local)
        assert failure.value.error is Errors.OFFSET_NOT_AVAILABLE

    story(work)


def test_metadata_that_is_not_ready() -> None:
    async def work(world: World) -> None:
        await world.fill()

        def refuse(_: object) -> None:
            raise NotReadyError("it is still read")

        world.manager.metadata.user = refuse  # type: ignore[assignment,method-assign]
        for question in (world.read(0), world.tier.find_by_time(world.partition, 5)):
            with pytest.raises(LogError) as failure:
                await question
            assert failure.value.error is Errors.OFFSET_NOT_AVAILABLE

    story(work)


def test_bounds() -> None:
    async def work(world: World) -> None:
        await world.fill()
        world.bounds = ReadBounds(bytes_per_second_max=1)
        assert (await world.read(0)).data
        # Above the quota nothing comes, and nothing fails.
        assert await world.read(0, COMMITTED) == RemoteRead(b"", [])
        world.bounds = ReadBounds(waiting_max=0)
        with pytest.raises(LogError) as failure:
            await world.read(0)
        assert failure.value.error is Errors.OFFSET_NOT_AVAILABLE
        world.bounds = ReadBounds(reads_max=0, search_ms_max=1)
        with pytest.raises(LogError) as failure:
            await world.tier.find_by_time(world.partition, 5)
        assert failure.value.error is Errors.REQUEST_TIMED_OUT

    story(work)
