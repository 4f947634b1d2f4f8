"""Which remote segment each offset of a range is read from, and how tasks are cut. Pure.

The history of a partition is the *chain* of its leader's epochs, each with the offsets it has in
the leader's log. A segment counts only for the offsets where one of its epochs lies in the chain:
after an unclean election a segment may hold records, at its end or as a whole, that the log lost.
So a segment is clipped at the ends of epochs. Segments of one epoch may overlap, since a new leader
cuts its segments elsewhere; at an offset of the same epoch they hold the same record, and the one
that begins first is read to its end.

What no segment holds is read from the brokers: the tail of the log, and gaps.

Tasks own offsets, not bytes: a task whose segment is gone can look for its offsets elsewhere. They
are cut in proportion to bytes, so that a large segment becomes several, and small segments that
follow each other become one.
"""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.spark.plan import OffsetRange, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kaa.tier.metadata.cache import RemoteLogCache
    from kaa.tier.metadata.model import SegmentMetadata


OFFSET_MAX: Final = 2**63 - 1


class ChainEpoch(NamedTuple):
    """A leader epoch with its offsets in the leader's log, from `start` up to `end`."""

    epoch: int
    start: int
    end: int


class Piece(NamedTuple):
    """Offsets `start` up to `end` of a remote segment."""

    segment: SegmentMetadata
    start: int
    end: int

    @property
    def is_whole(self) -> bool:
        segment = self.segment
        return self.start <= segment.start_offset and self.end > segment.end_offset

    @property
    def bytes(self) -> int:
        """About so many bytes of the segment."""
        segment = self.segment
        span = segment.end_offset + 1 - segment.start_offset
        return ceil(segment.size_bytes * (self.end - self.start) / max(1, span))


class PlannedPart(NamedTuple):
    """What one task reads: pieces that cover the range, or none, and then brokers have it."""

    range: OffsetRange
    pieces: tuple[Piece, ...] = ()

    def clipped(self, range_: OffsetRange) -> PlannedPart:
        """What of it lies within a range."""
        kept = (
            one._replace(start=max(one.start, range_.start), end=min(one.end, range_.end))
            for one in self.pieces
        )
        return PlannedPart(range_, tuple(one for one in kept if one.start < one.end))


def pieces_of(
    cache: RemoteLogCache, chain: Iterable[ChainEpoch], start: int, end: int
) -> list[Piece]:
    """What the store holds from `start` up to `end`, in order; no two pieces share an offset."""
    spans = []
    for epoch, first, after in chain:
        for begin, segment in cache.readable(epoch):
            low = max(begin, first, start)
            high = min(segment.end_of_epoch(epoch) + 1, after, end)
            if low < high:
                spans.append((low, -high, segment))
    pieces: list[Piece] = []
    position = start
    for low, negative_high, segment in sorted(spans, key=lambda span: span[:2]):
        low, high = max(low, position), -negative_high
        if high <= low:
            continue
        last = pieces[-1] if pieces else None
        if last is not None and last.segment is segment and last.end == low:
            pieces[-1] = last._replace(end=high)
        else:
            pieces.append(Piece(segment, low, high))
        position = high
    return pieces


def runs_of(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Pieces that follow each other without a gap, together."""
    runs: list[list[Piece]] = []
    for piece in pieces:
        if runs and runs[-1][-1].end == piece.start:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return runs


def tiered_end(pieces: Sequence[Piece], start: int) -> int:
    """How far the store reaches from `start` on without a gap."""
    for piece in pieces:
        if piece.start > start:
            break
        start = max(start, piece.end)
    return start


# --- tasks


def parts_of(whole: OffsetRange, pieces: Iterable[Piece], bytes_max: int) -> list[PlannedPart]:
    """A range as tasks of about `bytes_max` at most; those that brokers have are not cut."""
    parts: list[PlannedPart] = []
    position = whole.start
    size = 0
    for piece in (small for whole_piece in pieces for small in _cut(whole_piece, bytes_max)):
        if piece.start > position:
            parts.append(PlannedPart(OffsetRange(whole.partition, position, piece.start)))
        last = parts[-1] if parts else None
        if last is not None and last.pieces and size + piece.bytes <= bytes_max:
            whole_range = last.range._replace(end=piece.end)
            parts[-1] = PlannedPart(whole_range, (*last.pieces, piece))
            size += piece.bytes
        else:
            parts.append(
                PlannedPart(OffsetRange(whole.partition, piece.start, piece.end), (piece,))
            )
            size = piece.bytes
        position = piece.end
    if position < whole.end:
        parts.append(PlannedPart(OffsetRange(whole.partition, position, whole.end)))
    return parts


def _cut(piece: Piece, bytes_max: int) -> Iterator[Piece]:
    span = piece.end - piece.start
    count = max(1, min(span, ceil(piece.bytes / bytes_max)))
    marks = [piece.start + span * number // count for number in range(count + 1)]
    for start, end in pairwise(marks):
        yield Piece(piece.segment, start, end)


def split_parts(
    parts: Sequence[PlannedPart], min_partitions: int | None, max_records: int | None
) -> list[PlannedPart]:
    """More and smaller tasks, as the options of a query ask for."""
    small = split((part.range for part in parts), min_partitions, max_records)
    cut: list[PlannedPart] = []
    number = 0
    for range_ in small:
        while not (
            parts[number].range.partition == range_.partition
            and range_.start < parts[number].range.end
        ):
            number += 1
        cut.append(parts[number].clipped(range_))
    return cut
