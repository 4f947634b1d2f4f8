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

A share partition has one range per record in the worst case, thousands of them, so that they are
combined in pieces.
"""

from __future__ import annotations

import heapq
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import SHARE_BATCHES_PER_PIECE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kaa.model.pieces import Pieces


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
    known: Sequence[StateBatch], reported: Sequence[StateBatch], start_offset: int
) -> Pieces[tuple[StateBatch, ...]]:
    """All batches, without overlaps and without what lies before the start; -1 is not a start."""
    if len(known) + len(reported) < 2:
        # As most are that a leader writes.
        alone = (*known, *reported)
        return alone if start_offset == -1 else tuple(_from(alone, start_offset))
    pending = _Pending((yield from _ordered(chain(known, reported), start_offset)))
    finished: list[StateBatch] = []
    before = pending.pop()
    if before is None:
        return ()
    count = 0
    while (batch := pending.pop()) is not None:
        count += 1
        if count % SHARE_BATCHES_PER_PIECE == 0:
            yield
        if batch == before:
            continue
        overlaps = batch.first_offset <= before.last_offset
        continues = batch.first_offset == before.last_offset + 1
        if overlaps or (continues and batch.progress == before.progress):
            for piece in _pieces(before, batch):
                pending.push(piece)
            before = pending.pop()
            assert before is not None
        else:
            finished.append(before)
            before = batch
    finished.append(before)
    return tuple(finished)


def _ordered(batches: Iterable[StateBatch], start_offset: int) -> Pieces[Iterator[StateBatch]]:
    """What lies at or after the start, in order. No piece sorts more than a part of them; the parts
    are put together on the way through.
    """
    runs: list[list[StateBatch]] = []
    rest = iter(batches)
    while part := list(islice(rest, SHARE_BATCHES_PER_PIECE)):
        runs.append(sorted(part if start_offset == -1 else _from(part, start_offset)))
        if len(part) == SHARE_BATCHES_PER_PIECE:
            yield
    return iter(runs[0]) if len(runs) == 1 else heapq.merge(*runs)


def _from(batches: Iterable[StateBatch], start_offset: int) -> Iterator[StateBatch]:
    for batch in batches:
        if batch.first_offset >= start_offset:
            yield batch
        elif batch.last_offset >= start_offset:
            yield batch._replace(first_offset=start_offset)


class _Pending:
    """Batches that are still to be compared, in order: those that came, and pieces of them."""

    __slots__ = ("_came", "_cut", "_next")

    def __init__(self, came: Iterator[StateBatch]) -> None:
        self._came = came
        self._next = next(came, None)
        self._cut: list[StateBatch] = []

    def pop(self) -> StateBatch | None:
        found = self._next
        if self._cut and (found is None or self._cut[0] < found):
            return heapq.heappop(self._cut)
        self._next = next(self._came, None)
        return found

    def push(self, batch: StateBatch) -> None:
        heapq.heappush(self._cut, batch)


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
