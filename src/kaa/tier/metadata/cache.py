"""What is known of the remote segments of one partition: which one holds an offset of an epoch.

A segment may hold records of several leader epochs, and after an unclean election two segments may
hold the same offsets with different records. So the question is never "which segment has offset
x?" but "which has offset x of epoch e?", and there is one table per epoch: from the first offset
that a segment holds of the epoch to the segment.

A leader that copies again what its predecessor had copied in part (its segments were cut elsewhere)
replaces: a segment that starts no later and ends no earlier than the newest entries takes their
place, and they become *unreferenced*. So are copies under way and deletions under way. Nobody reads
an unreferenced segment, but it is listed until its deletion is finished, so that its objects are
found and removed.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING, NamedTuple

from kaa.tier.metadata.model import SegmentState, can_follow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaa.tier.metadata.model import SegmentMetadata, SegmentUpdate
    from kaa.wire.primitives import Uuid


class UnknownSegmentError(LookupError):
    """An update names a segment that was never announced."""


class EpochTable(NamedTuple):
    """The state of one leader epoch, as a snapshot keeps it: it depends on the order in which
    copies finished and on segments that are long gone, and cannot be derived from those still left.
    """

    epoch: int
    highest_offset: int
    # First offsets and segments, rising.
    referenced: tuple[tuple[int, Uuid], ...]
    unreferenced: tuple[Uuid, ...]


class _Epoch:
    """The segments with records of one leader epoch."""

    __slots__ = ("_ids", "_starts", "highest_offset", "unreferenced")

    def __init__(self) -> None:
        # Where the readable segments begin in this epoch, rising, and which they are.
        self._starts: list[int] = []
        self._ids: dict[int, Uuid] = {}
        # The highest offset of this epoch that was ever readable; -1 for none.
        self.highest_offset = -1
        # Ordered, so that lists come out the same in every run.
        self.unreferenced: dict[Uuid, None] = {}

    def floor(self, offset: int) -> Uuid | None:
        """The segment that begins at `offset` or nearest before it."""
        position = bisect_right(self._starts, offset)
        return self._ids[self._starts[position - 1]] if position else None

    def referenced(self) -> Iterator[tuple[int, Uuid]]:
        return ((start, self._ids[start]) for start in self._starts)

    @classmethod
    def of(cls, table: EpochTable) -> _Epoch:
        epoch = cls()
        epoch._starts = [start for start, _ in table.referenced]
        epoch._ids = dict(table.referenced)
        epoch.highest_offset = table.highest_offset
        epoch.unreferenced = dict.fromkeys(table.unreferenced)
        return epoch

    def add(self, start: int, end: int, segment_id: Uuid) -> None:
        """A copied segment holds `start` to `end` of this epoch."""
        while self._starts and self._starts[-1] >= start and self.highest_offset <= end:
            self.unreferenced[self._ids.pop(self._starts.pop())] = None
        if start in self._ids:
            # Kafka forgets this one, and leaves its objects for ever.
            self.unreferenced[self._ids[start]] = None
        else:
            insort(self._starts, start)
        self._ids[start] = segment_id
        self.unreferenced.pop(segment_id, None)
        self.highest_offset = max(self.highest_offset, end)

    def drop(self, start: int, segment_id: Uuid) -> None:
        """A segment is not to be read any more."""
        if self._ids.get(start) == segment_id:
            del self._ids[start]
            self._starts.pop(bisect_right(self._starts, start) - 1)
        self.unreferenced[segment_id] = None


class RemoteLogCache:
    """The remote segments of one partition, by epoch and offset. Events are applied in the order of
    the metadata partition.
    """

    def __init__(self) -> None:
        # Every segment whose deletion is not finished.
        self._segments: dict[Uuid, SegmentMetadata] = {}
        self._epochs: dict[int, _Epoch] = {}

    def __len__(self) -> int:
        return len(self._segments)

    def __contains__(self, segment_id: Uuid) -> bool:
        return segment_id in self._segments

    # --- changes

    def announce(self, segment: SegmentMetadata) -> bool:
        """A copy begins; False, and nothing changes, if that cannot follow what is known."""
        known = self._segments.get(segment.segment_id)
        if segment.state != SegmentState.COPY_SEGMENT_STARTED:
            raise ValueError(f"a segment begins with {segment.state.name}")
        if not can_follow(None if known is None else known.state, segment.state):
            return False
        for epoch, _ in segment.leader_epochs:
            self._epoch(epoch).unreferenced[segment.segment_id] = None
        self._segments[segment.segment_id] = segment
        return True

    def update(self, update: SegmentUpdate) -> bool:
        """A segment has reached another state; False if that cannot follow the one it is in."""
        known = self._segments.get(update.segment_id)
        if known is None:
            raise UnknownSegmentError(f"no segment {update.segment_id} of {update.partition}")
        if update.state == SegmentState.COPY_SEGMENT_STARTED:
            raise ValueError("a copy that begins is announced, not updated")
        if not can_follow(known.state, update.state):
            return False
        self._take(known.updated(update))
        return True

    def _take(self, segment: SegmentMetadata) -> None:
        segment_id = segment.segment_id
        for number, start in segment.leader_epochs:
            epoch = self._epoch(number)
            match segment.state:
                case SegmentState.COPY_SEGMENT_FINISHED:
                    epoch.add(start, segment.end_of_epoch(number), segment_id)
                case SegmentState.DELETE_SEGMENT_STARTED:
                    epoch.drop(start, segment_id)
                case SegmentState.DELETE_SEGMENT_FINISHED:
                    epoch.unreferenced.pop(segment_id, None)
        if segment.state == SegmentState.DELETE_SEGMENT_FINISHED:
            self._segments.pop(segment_id, None)
        else:
            self._segments[segment_id] = segment

    def _epoch(self, number: int) -> _Epoch:
        return self._epochs.setdefault(number, _Epoch())

    # --- snapshots

    def tables(self) -> list[EpochTable]:
        """The state beside the segments themselves."""
        return [
            EpochTable(
                number, epoch.highest_offset, tuple(epoch.referenced()), tuple(epoch.unreferenced)
            )
            for number, epoch in self._epochs.items()
        ]

    @classmethod
    def of(
        cls, segments: Iterable[SegmentMetadata], tables: Iterable[EpochTable]
    ) -> RemoteLogCache:
        """What `segments` and `tables` gave."""
        cache = cls()
        cache._segments = {one.segment_id: one for one in segments}
        cache._epochs = {table.epoch: _Epoch.of(table) for table in tables}
        return cache

    # --- questions

    def get(self, segment_id: Uuid) -> SegmentMetadata | None:
        return self._segments.get(segment_id)

    def find(self, epoch: int, offset: int) -> SegmentMetadata | None:
        """The segment to read for `offset` of `epoch`."""
        found = self._epochs.get(epoch)
        segment_id = None if found is None else found.floor(offset)
        if segment_id is None:
            return None
        segment = self._segments[segment_id]
        return segment if offset <= segment.end_of_epoch(epoch) else None

    def highest_offset(self, epoch: int) -> int | None:
        """The last offset of `epoch` that was ever readable, if any."""
        found = self._epochs.get(epoch)
        return None if found is None or found.highest_offset < 0 else found.highest_offset

    def segments(self) -> tuple[SegmentMetadata, ...]:
        """Every segment whose deletion is not finished, in the order of announcement."""
        return tuple(self._segments.values())

    def readable(self, epoch: int) -> Iterator[tuple[int, SegmentMetadata]]:
        """The segments that readers may use, each with its first offset of `epoch`, rising."""
        found = self._epochs.get(epoch)
        if found is not None:
            for start, segment_id in found.referenced():
                yield start, self._segments[segment_id]

    def segments_of_epoch(self, epoch: int) -> list[SegmentMetadata]:
        """Those with records of `epoch`, by their start offsets."""
        found = self._epochs.get(epoch)
        if found is None:
            return []
        ids = (*(one for _, one in found.referenced()), *found.unreferenced)
        return sorted((self._segments[one] for one in ids), key=lambda one: one.start_offset)
