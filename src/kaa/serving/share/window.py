"""The batches of a share partition in the order of their offsets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.serving.share.in_flight import InFlightBatch


class Window:
    """Batches that do not overlap, by their first offsets."""

    __slots__ = ("_batches", "_keys")

    def __init__(self) -> None:
        self._keys: list[int] = []
        self._batches: dict[int, InFlightBatch] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[InFlightBatch]:
        for key in tuple(self._keys):
            yield self._batches[key]

    def since(self, offset: int) -> Iterator[InFlightBatch]:
        """From the batch on that has the offset, or begins after it."""
        place = max(0, bisect_right(self._keys, offset) - 1)
        for key in self._keys[place:]:
            yield self._batches[key]

    @property
    def first(self) -> InFlightBatch:
        return self._batches[self._keys[0]]

    @property
    def last(self) -> InFlightBatch:
        return self._batches[self._keys[-1]]

    def put(self, batch: InFlightBatch) -> None:
        key = batch.first_offset
        if key not in self._batches:
            self._keys.insert(bisect_left(self._keys, key), key)
        self._batches[key] = batch

    def floor(self, offset: int) -> InFlightBatch | None:
        """The last batch that begins at or before the offset."""
        place = bisect_right(self._keys, offset)
        return self._batches[self._keys[place - 1]] if place else None

    def after(self, offset: int) -> InFlightBatch | None:
        """The first batch that begins after the offset."""
        place = bisect_right(self._keys, offset)
        return self._batches[self._keys[place]] if place < len(self._keys) else None

    def between(self, first: int, last: int) -> list[InFlightBatch]:
        """Batches that begin from `first` to `last`, both included."""
        keys = self._keys[bisect_left(self._keys, first) : bisect_right(self._keys, last)]
        return [self._batches[key] for key in keys]

    def remove_before(self, offset: int) -> None:
        """Removes batches that begin before the offset."""
        place = bisect_left(self._keys, offset)
        for key in self._keys[:place]:
            del self._batches[key]
        del self._keys[:place]

    def clear(self) -> None:
        self._keys.clear()
        self._batches.clear()
