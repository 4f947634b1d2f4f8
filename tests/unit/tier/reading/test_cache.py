from __future__ import annotations

import asyncio

import pytest

from kaa.limits import TIER_CHUNK_BYTES
from kaa.tier.reading.cache import BytesCache, SegmentCache
from kaa.tier.store.layout import Part, object_name
from kaa.tier.store.objects import MemoryStore, StoreError
from kaa.tier.store.segments import RemoteSegments
from tests.unit.tier.metadata.samples import segment


class Counted:
    """A fetch that waits until it is let go, and counts."""

    def __init__(self, data: bytes = b"0123456789") -> None:
        self.data = data
        self.count = 0
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> bytes:
        self.count += 1
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return self.data


def test_two_readers_share_a_fetch_and_one_may_leave() -> None:
    async def story() -> None:
        async with asyncio.TaskGroup() as tasks:
            cache: BytesCache[str] = BytesCache(100, tasks)
            fetch = Counted()
            first = tasks.create_task(cache.get("a", fetch))
            second = tasks.create_task(cache.get("a", fetch))
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.sleep(0)
            fetch.gate.set()
            assert await second == b"0123456789"
            assert await cache.get("a", fetch) == b"0123456789"
            assert fetch.count == 1

    asyncio.run(story())


def test_a_failure_is_not_kept() -> None:
    async def story() -> None:
        async with asyncio.TaskGroup() as tasks:
            cache: BytesCache[str] = BytesCache(100, tasks)
            fetch = Counted()
            fetch.gate.set()
            fetch.error = StoreError("not now")
            with pytest.raises(StoreError):
                await cache.get("a", fetch)
            fetch.error = None
            assert await cache.get("a", fetch) == b"0123456789"
            assert fetch.count == 2

    asyncio.run(story())


def test_it_is_bounded_and_the_least_used_goes_first() -> None:
    async def story() -> None:
        async with asyncio.TaskGroup() as tasks:
            cache: BytesCache[str] = BytesCache(25, tasks)
            fetch = Counted()
            fetch.gate.set()
            for key in ("a", "b", "a", "c"):
                await cache.get(key, fetch)
            assert cache.size_bytes == 20
            assert ["a" in cache, "b" in cache, "c" in cache] == [True, False, True]
            cache.drop(lambda key: key == "a")
            assert cache.size_bytes == 10
            # What is larger than all is given and not kept.
            assert len(await cache.get("d", large)) == 1_000
            assert cache.size_bytes == 0

    async def large() -> bytes:
        return b"x" * 1_000

    asyncio.run(story())


class CountingStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[int] = []

    async def get_range(self, name: str, start: int, end: int) -> bytes:
        self.ranges.append(start // TIER_CHUNK_BYTES)
        return await super().get_range(name, start, end)


def test_a_log_is_read_in_pieces_and_ahead_of_who_reads_in_order() -> None:
    size = 3 * TIER_CHUNK_BYTES + 10
    one = segment(1, 0, 99)._replace(size_bytes=size)
    data = bytes(range(251)) * (size // 251 + 1)

    async def story() -> None:
        store = CountingStore()
        store.objects[object_name(one, Part.LOG)] = data[:size]
        async with asyncio.TaskGroup() as tasks:
            cache = SegmentCache(
                RemoteSegments(store), tasks, index_bytes_max=100, chunk_bytes_max=2 * size
            )
            assert await cache.log(one, 5, 15) == data[5:15]
            assert store.ranges == [0]
            start = TIER_CHUNK_BYTES - 5
            assert await cache.log(one, start, start + 10) == data[start : start + 10]
            await asyncio.sleep(0.01)
            assert store.ranges == [0, 1, 2]
            assert await cache.log(one, size - 4, size + 100) == data[size - 4 : size]
            await asyncio.sleep(0.01)
            assert store.ranges == [0, 1, 2, 3]
            cache.drop(one.segment_id)
            await cache.log(one, 0, 1)
            assert store.ranges == [0, 1, 2, 3, 0]

    asyncio.run(story())
