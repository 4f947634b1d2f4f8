"""Real logs on simulated disks whose closed segments lie in a store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

from kaa.log.files import read_whole
from kaa.log.log import UnifiedLog
from kaa.log.segment import Segment
from kaa.tier.metadata.cache import RemoteLogCache
from kaa.tier.metadata.model import EpochStart, SegmentMetadata, SegmentState, SegmentUpdate
from kaa.tier.plan import epochs_within
from kaa.tier.reading.cache import SegmentCache
from kaa.tier.reading.reader import RemoteReader
from kaa.tier.store.layout import Part
from kaa.tier.store.objects import MemoryStore
from kaa.tier.store.segments import RemoteSegments, checksum, encode_written
from tests.unit.tier.metadata.samples import PARTITION, segment_id

SUFFIXES = {
    Part.LOG: ".log",
    Part.OFFSET_INDEX: ".index",
    Part.TIME_INDEX: ".timeindex",
    Part.TXN_INDEX: ".txnindex",
}


class Tier:
    """A store and what is known of it."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.segments = RemoteSegments(self.store)
        self.cache = RemoteLogCache()
        self._count = 0

    async def copy(self, log: UnifiedLog) -> None:
        """Copies every closed segment of the log."""
        for one, following in pairwise(log.segments):
            await self._copy(log, one, following.base_offset)

    async def _copy(self, log: UnifiedLog, one: Segment, end: int) -> None:
        one.flush_indexes()
        parts: dict[Part, Path | bytes] = {
            part: read_whole(log.directory.files, one.path(suffix))
            for part, suffix in SUFFIXES.items()
            if log.directory.files.exists(one.path(suffix))
        }
        self._count += 1
        written = encode_written({part: checksum(data) for part, data in parts.items()})
        segment = SegmentMetadata(
            PARTITION,
            segment_id(self._count),
            one.base_offset,
            end - 1,
            max_timestamp_ms=one.max_timestamp,
            broker_id=1,
            event_timestamp_ms=0,
            size_bytes=one.size,
            state=SegmentState.COPY_SEGMENT_STARTED,
            leader_epochs=epochs_within(epochs_of(log), one.base_offset, end),
            is_txn_index_empty=Part.TXN_INDEX not in parts,
        )
        assert self.cache.announce(segment)
        await self.segments.copy(segment, parts)
        state = SegmentState.COPY_SEGMENT_FINISHED
        assert self.cache.update(SegmentUpdate(PARTITION, segment.segment_id, 1, 1, state, written))

    @asynccontextmanager
    async def reader(self, chunk_bytes_max: int = 1 << 20) -> AsyncIterator[RemoteReader]:
        async with asyncio.TaskGroup() as tasks:
            cache = SegmentCache(
                self.segments, tasks, index_bytes_max=1 << 20, chunk_bytes_max=chunk_bytes_max
            )
            yield RemoteReader(cache)


def epochs_of(log: UnifiedLog) -> list[EpochStart]:
    return [EpochStart(*entry) for entry in log.leader_epochs.entries]
