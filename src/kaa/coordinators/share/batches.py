"""Ranges of offsets with their delivery state, combined into ranges that do not overlap.

A share-partition leader reports ranges as they change, and what it reports may overlap what is
known. On the offsets that two ranges have in common the one that went further wins: the higher
delivery count, and with equal counts the higher state (available 0, acknowledged 2, archived 4). In
the order of `(first, last, count, state)` neighbours are compared two by two:

    known     10 -------- 19  count 1, available
    reported      13 -- 16    count 1, acknowledged
    combined  10-12 available, 13-16 acknowledged, 17-19 available

Neighbours with equal state become one range, but only while both are still to be compared: a range
that was set aside as finished stays as it is, even if a later one would have continued it. Kafka
does so too, and the records have to be equal.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class StateBatch(NamedTuple):
    """Offsets from first to last, both included. The order of the fields is that of batches."""

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int

    @property
    def progress(self) -> tuple[int, int]:
        """What decides between two batches that overlap."""
        return self.delivery_count, self.delivery_state


def combine(
    known: Iterable[StateBatch], reported: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """All batches, without overlaps and without what lies before the start; -1 is not a start."""
    batches = [*known, *reported]
    if start_offset != -1:
        batches = [
            batch._replace(first_offset=max(batch.first_offset, start_offset))
            for batch in batches
            if batch.last_offset >= start_offset
        ]
    if len(batches) < 2:
        return tuple(batches)
    finished: list[StateBatch] = []
    pending = list(set(batches))
    heapq.heapify(pending)
    before = heapq.heappop(pending)
    while pending:
        batch = heapq.heappop(pending)
        overlaps = batch.first_offset <= before.last_offset
        continues = batch.first_offset == before.last_offset + 1
        if overlaps or (continues and batch.progress == before.progress):
            for piece in _pieces(before, batch):
                heapq.heappush(pending, piece)
            before = heapq.heappop(pending)
        else:
            finished.append(before)
            before = batch
    finished.append(before)
    return tuple(finished)


def _pieces(before: StateBatch, batch: StateBatch) -> list[StateBatch]:
    """Two batches that touch, as batches that do not; `before` comes first in their order."""
    if batch.progress == before.progress:
        return [before._replace(last_offset=max(before.last_offset, batch.last_offset))]
    if batch.progress < before.progress:
        # What sticks out of the weaker one is left of it.
        if batch.last_offset <= before.last_offset:
            return [before]
        return [before, batch._replace(first_offset=before.last_offset + 1)]
    pieces = [batch]
    if before.first_offset < batch.first_offset:
        pieces.append(before._replace(last_offset=batch.first_offset - 1))
    if batch.last_offset < before.last_offset:
        pieces.append(before._replace(first_offset=batch.last_offset + 1))
    return pieces
