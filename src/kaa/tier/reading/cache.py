"""What was read from the store lately, bounded in bytes, the least used goes first.

Two readers of the same thing wait for one fetch. A fetch that fails fails for all who wait for it
and leaves nothing behind, so that the next one tries again. A reader that gives up (its client is
gone) does not end the fetch for the others.

A log is kept in aligned pieces. A reader that came to a piece from the one before it reads in
order: the next piece is fetched ahead.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from kaa.limits import TIER_CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from kaa.tier.metadata.model import SegmentMetadata
    from kaa.tier.reading.index_files import IndexFiles
    from kaa.tier.store.layout import Part
    from kaa.tier.store.segments import RemoteSegments
    from kaa.wire.primitives import Uuid

Key = TypeVar("Key", bound="Hashable")


class BytesCache(Generic[Key]):
    """Keeps what `fetch` gave, bounded in bytes. Failures are not kept."""

    def __init__(self, bytes_max: int, tasks: asyncio.TaskGroup) -> None:
        self._bytes_max = bytes_max
        self._tasks = tasks
        self._kept: OrderedDict[Key, bytes] = OrderedDict()
        self._size = 0
        self._coming: dict[Key, asyncio.Future[bytes]] = {}

    @property
    def size_bytes(self) -> int:
        return self._size

    def __contains__(self, key: Key) -> bool:
        return key in self._kept or key in self._coming

    async def get(self, key: Key, fetch: Callable[[], Awaitable[bytes]]) -> bytes:
        """What is kept under `key`, or what `fetch` gives."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        return await asyncio.shield(self.begin(key, fetch))

    def begin(self, key: Key, fetch: Callable[[], Awaitable[bytes]]) -> asyncio.Future[bytes]:
        """Begins a fetch unless one is under way."""
        coming = self._coming.get(key)
        if coming is None:
            coming = self._coming[key] = asyncio.get_running_loop().create_future()
            # An error that nobody waits for any more is nobody's.
            coming.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._tasks.create_task(self._fetch(key, fetch, coming))
        return coming

    async def _fetch(
        self, key: Key, fetch: Callable[[], Awaitable[bytes]], coming: asyncio.Future[bytes]
    ) -> None:
        try:
            data = await fetch()
        except asyncio.CancelledError:
            coming.cancel()
            raise
        except Exception as error:  # noqa: BLE001  Those who wait for it decide.
            coming.set_exception(error)
        else:
            self._keep(key, data)
            coming.set_result(data)
        finally:
            self._coming.pop(key, None)

    def _keep(self, key: Key, data: bytes) -> None:
        self._kept[key] = data
        self._size += len(data)
        while self._size > self._bytes_max and self._kept:
            _, dropped = self._kept.popitem(last=False)
            self._size -= len(dropped)

    def drop(self, is_meant: Callable[[Key], bool]) -> None:
        """Forgets what is kept under these keys."""
        for key in [key for key in self._kept if is_meant(key)]:
            self._size -= len(self._kept.pop(key))


class _Chunk(NamedTuple):
    segment_id: Uuid
    number: int


class _PartKey(NamedTuple):
    segment_id: Uuid
    part: Part


class SegmentCache:
    """The parts and logs of remote segments."""

    def __init__(
        self,
        segments: RemoteSegments,
        tasks: asyncio.TaskGroup,
        *,
        index_bytes_max: int,
        chunk_bytes_max: int,
        index_files: IndexFiles | None = None,
    ) -> None:
        self._segments = segments
        self._tasks = tasks
        # What does not fit into memory, and what was there before a restart.
        self._index_files = index_files
        self._parts: BytesCache[_PartKey] = BytesCache(index_bytes_max, tasks)
        self._chunks: BytesCache[_Chunk] = BytesCache(chunk_bytes_max, tasks)

    async def part(self, segment: SegmentMetadata, part: Part) -> bytes:
        """A small part; empty for a transaction index that is left out."""

        async def fetch() -> bytes:
            if self._index_files is None:
                return await self._segments.read_part(segment, part) or b""
            kept = await self._index_files.read(segment, part)
            if kept is not None:
                return kept
            data = await self._segments.read_part(segment, part) or b""
            self._tasks.create_task(self._index_files.keep(segment, part, data))
            return data

        return await self._parts.get(_PartKey(segment.segment_id, part), fetch)

    async def log(self, segment: SegmentMetadata, start: int, end: int) -> bytes:
        """Bytes of the log from `start` up to `end`, fewer where it ends."""
        end = min(end, segment.size_bytes)
        pieces = []
        while start < end:
            number, within = divmod(start, TIER_CHUNK_BYTES)
            data = await self._chunk(segment, number)
            piece = data[within : within + end - start]
            pieces.append(piece)
            start += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _chunk(self, segment: SegmentMetadata, number: int) -> bytes:
        key = _Chunk(segment.segment_id, number)
        is_sequential = _Chunk(segment.segment_id, number - 1) in self._chunks
        if key not in self._chunks:
            self._chunks.begin(key, lambda: self._read(segment, number))
        following = _Chunk(segment.segment_id, number + 1)
        is_last = (number + 1) * TIER_CHUNK_BYTES >= segment.size_bytes
        if is_sequential and not is_last and following not in self._chunks:
            self._chunks.begin(following, lambda: self._read(segment, number + 1))
        return await self._chunks.get(key, lambda: self._read(segment, number))

    def _read(self, segment: SegmentMetadata, number: int) -> Awaitable[bytes]:
        start = number * TIER_CHUNK_BYTES
        return self._segments.read_log(segment, start, start + TIER_CHUNK_BYTES)

    def drop_log(self, segment_id: Uuid) -> None:
        """What was read of a log is damaged: the store is asked again."""
        self._chunks.drop(lambda key: key.segment_id == segment_id)

    def drop(self, segment_id: Uuid) -> None:
        """A segment is deleted."""
        self._parts.drop(lambda key: key.segment_id == segment_id)
        self.drop_log(segment_id)
        if self._index_files is not None:
            self._tasks.create_task(self._index_files.drop(segment_id))
