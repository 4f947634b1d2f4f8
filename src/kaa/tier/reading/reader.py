"""Batches of a remote log by offset, and offsets by time.

The segment is found by the leader epoch that the offset has in this node's log, and read up to
where the epochs of the two part, so that records of a leader that lost them are never read. The
offset index says where in the log to begin, and from there batch headers lead to the one that holds
the offset. A segment may end before the offset it should hold: the topic was compacted once. Then
the next one has it.

What is read is whole batches, at least one if that is wanted however large it is, and nothing at or
above `end_offset`. Each is compared with its own checksum, and has to lie where the segment says:
what came damaged over the network is an error of that read, and is forgotten, so that the next one
asks the store again. Two fields of a batch are outside its checksum, its first offset and its
leader epoch; of these only the offset is held against those around it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import TIER_SEEK_BYTES
from kaa.log.errors import CorruptFileError
from kaa.log.leader_epochs import LeaderEpochCache
from kaa.log.lookup import TimestampAndOffset
from kaa.log.rebuild import RemoteState
from kaa.records.batch import LOG_OVERHEAD, LOG_OVERHEAD_BYTES, RecordBatch
from kaa.records.errors import RecordsError
from kaa.records.record import iter_records
from kaa.tier.reading.indexes import aborted_in, offset_of_time, position_of
from kaa.tier.store.layout import Part
from kaa.tier.store.segments import DamagedObjectError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaa.log.transaction_index import AbortedTransaction
    from kaa.tier.metadata.cache import RemoteLogCache
    from kaa.tier.metadata.model import EpochStart, SegmentMetadata
    from kaa.tier.reading.cache import SegmentCache


class OffsetNotRemoteError(LookupError):
    """The store does not have the offset: it is local, or it is gone."""


class RemoteBatches(NamedTuple):
    """Whole batches; the first holds the offset that was asked for."""

    data: bytes
    segment: SegmentMetadata
    # One above the last offset in them.
    next_offset: int


class _Found(NamedTuple):
    """Where a batch lies in a log."""

    position: int
    size: int
    last_offset: int


def epoch_of(epochs: Sequence[EpochStart], offset: int) -> int | None:
    """The leader epoch of an offset."""
    found = None
    for epoch, start in epochs:
        if start > offset:
            break
        found = epoch
    return found


def lost_from(segment: SegmentMetadata, epochs: Sequence[EpochStart], offset: int) -> int:
    """The first offset after `offset`, which both have, where the segment is of another epoch than
    the log: after an unclean election its end may be what the log lost.
    """
    edges = {one.offset for one in (*epochs, *segment.leader_epochs) if one.offset > offset}
    for edge in sorted(edges):
        if epoch_of(epochs, edge) != epoch_of(segment.leader_epochs, edge):
            return edge
    return segment.end_offset + 1


class RemoteReader:
    """Reads remote logs. `epochs` are always those of the log that is read for. A missing object or
    a failing store raises for that read alone.
    """

    def __init__(self, segments: SegmentCache) -> None:
        self._segments = segments

    # --- by offset

    async def read(
        self,
        cache: RemoteLogCache,
        epochs: Sequence[EpochStart],
        offset: int,
        *,
        end_offset: int,
        bytes_max: int,
        min_one: bool,
    ) -> RemoteBatches:
        """Batches from `offset` on. OffsetNotRemoteError, StoreError."""
        wanted = offset
        while True:
            segment = self._segment(cache, epochs, wanted)
            with self._forgetting(segment):
                found = await self._locate(segment, offset)
                if found is not None:
                    end_offset = min(end_offset, lost_from(segment, epochs, found.last_offset))
                    size = found.size if min_one else 0
                    end = found.position + max(size, bytes_max)
                    data = await self._segments.log(segment, found.position, end)
                    return _whole(data, segment, found.position, end_offset, offset)
            wanted = segment.end_offset + 1

    @contextmanager
    def _forgetting(self, segment: SegmentMetadata) -> Iterator[None]:
        """What was read of a log and turns out to be damaged is not kept."""
        try:
            yield
        except DamagedObjectError:
            self._segments.drop_log(segment.segment_id)
            raise

    def _segment(
        self, cache: RemoteLogCache, epochs: Sequence[EpochStart], offset: int
    ) -> SegmentMetadata:
        epoch = epoch_of(epochs, offset)
        segment = None if epoch is None else cache.find(epoch, offset)
        if segment is None:
            raise OffsetNotRemoteError(f"offset {offset} of epoch {epoch} is not in the store")
        return segment

    async def _locate(self, segment: SegmentMetadata, offset: int) -> _Found | None:
        """The first batch that ends at `offset` or later; None if the segment has none."""
        index = await self._segments.part(segment, Part.OFFSET_INDEX)
        position = position_of(index, segment.start_offset, offset)
        while position < segment.size_bytes:
            window = await self._segments.log(segment, position, position + TIER_SEEK_BYTES)
            place = 0
            while place + _HEADER_BYTES <= len(window):
                found = _batch_at(window, place, position + place)
                _check_end(found, segment)
                if found.last_offset >= offset:
                    return found
                place += found.size
            if place == 0:
                raise DamagedObjectError(f"a batch of {segment.segment_id} is cut short")
            position += place
        return None

    async def aborted(
        self,
        cache: RemoteLogCache,
        epochs: Sequence[EpochStart],
        start_offset: int,
        end_offset: int,
    ) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions of a range, and whether the local log can hold no more."""
        collected: list[AbortedTransaction] = []
        segment: SegmentMetadata | None = self._segment(cache, epochs, start_offset)
        while segment is not None:
            index = await self._segments.part(segment, Part.TXN_INDEX)
            found, is_complete = aborted_in(index, start_offset, end_offset)
            collected += found
            if is_complete:
                return collected, True
            segment = self._next_indexed(cache, epochs, segment.end_offset + 1)
        return collected, False

    def _next_indexed(
        self, cache: RemoteLogCache, epochs: Sequence[EpochStart], offset: int
    ) -> SegmentMetadata | None:
        """The next segment that has aborted transactions, over the ends of epochs."""
        while (epoch := epoch_of(epochs, offset)) is not None:
            segment = cache.find(epoch, offset)
            if segment is None or not segment.is_txn_index_empty:
                return segment
            offset = segment.end_offset + 1
        return None

    # --- what a follower needs to go on after a segment

    async def state_of(self, segment: SegmentMetadata) -> RemoteState:
        """The leader epochs and producers up to the end of a segment. StoreError."""
        content = await self._segments.part(segment, Part.LEADER_EPOCHS)
        try:
            epochs = LeaderEpochCache.decode(f"epochs of {segment.segment_id}", content)
        except CorruptFileError as error:
            raise DamagedObjectError(str(error)) from error
        producers = await self._segments.part(segment, Part.PRODUCER_SNAPSHOT)
        return RemoteState(segment.end_offset + 1, epochs.entries, producers)

    # --- by time

    async def find_by_time(
        self,
        cache: RemoteLogCache,
        epochs: Sequence[EpochStart],
        timestamp_ms: int,
        start_offset: int,
    ) -> TimestampAndOffset | None:
        """The first record of `timestamp_ms` or later from `start_offset` on; None if the store
        has none.
        """
        for epoch, _ in epochs:
            for segment in cache.segments_of_epoch(epoch):
                is_known = cache.find(epoch, max(segment.start_offset, start_offset)) == segment
                if segment.max_timestamp_ms < timestamp_ms or not is_known:
                    continue
                if segment.end_offset < start_offset:
                    continue
                with self._forgetting(segment):
                    found = await self._find_in(segment, timestamp_ms, start_offset)
                if found is not None:
                    return found
        return None

    async def _find_in(
        self, segment: SegmentMetadata, timestamp_ms: int, start_offset: int
    ) -> TimestampAndOffset | None:
        index = await self._segments.part(segment, Part.TIME_INDEX)
        first = offset_of_time(index, segment.start_offset, timestamp_ms)
        found = await self._locate(segment, max(first, start_offset))
        while found is not None:
            data = await self._segments.log(segment, found.position, found.position + found.size)
            try:
                batch = RecordBatch(data)
                batch.ensure_valid()
                if batch.max_timestamp >= timestamp_ms:
                    for record in iter_records(batch):
                        if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                            return TimestampAndOffset(
                                record.timestamp, record.offset, batch.partition_leader_epoch
                            )
            except RecordsError as error:
                raise DamagedObjectError(f"a batch of {segment.segment_id}: {error}") from error
            found = await self._at(segment, found.position + found.size)
        return None

    async def _at(self, segment: SegmentMetadata, position: int) -> _Found | None:
        if position >= segment.size_bytes:
            return None
        window = await self._segments.log(segment, position, position + _HEADER_BYTES)
        if len(window) < _HEADER_BYTES:
            raise DamagedObjectError(f"a batch of {segment.segment_id} is cut short")
        return _batch_at(window, 0, position)


# Up to and including the last offset delta of a batch.
_HEADER_BYTES = 27


def _batch_at(window: bytes, place: int, position: int) -> _Found:
    base_offset, length = LOG_OVERHEAD.unpack_from(window, place)
    delta = int.from_bytes(window[place + 23 : place + 27], "big")
    size = length + LOG_OVERHEAD_BYTES
    if size < _HEADER_BYTES:
        raise DamagedObjectError(f"there is no batch at byte {position}")
    return _Found(position, size, base_offset + delta)


def _whole(
    data: bytes, segment: SegmentMetadata, position: int, end_offset: int, offset: int
) -> RemoteBatches:
    """As many whole batches as the bytes from `position` on hold, below `end_offset`."""
    place, next_offset, least = 0, offset, segment.start_offset
    while place + _HEADER_BYTES <= len(data):
        found = _batch_at(data, place, position + place)
        _check_end(found, segment)
        if place + found.size > len(data):
            break
        least = _check(data, place, segment, least)
        if found.last_offset >= end_offset:
            break
        place += found.size
        next_offset = found.last_offset + 1
    return RemoteBatches(data[:place], segment, next_offset)


def _check_end(found: _Found, segment: SegmentMetadata) -> None:
    if found.position + found.size > segment.size_bytes:
        raise DamagedObjectError(f"a batch of {segment.segment_id} ends after its log")


def _check(data: bytes, place: int, segment: SegmentMetadata, least: int) -> int:
    """Whether a batch is sound, and begins at `least` or later; what the next one may begin at."""
    try:
        batch = RecordBatch(data, place)
        batch.ensure_valid()
    except RecordsError as error:
        raise DamagedObjectError(f"a batch of {segment.segment_id}: {error}") from error
    if not least <= batch.base_offset <= batch.last_offset <= segment.end_offset:
        raise DamagedObjectError(
            f"a batch of {segment.segment_id} has the offsets {batch.base_offset} to "
            f"{batch.last_offset}, and {least} to {segment.end_offset} are left"
        )
    return batch.next_offset
