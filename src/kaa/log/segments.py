"""The segments of a log in order of their base offsets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.log.segment import Segment


class Segments:
    """Never empty once a log is loaded; the last one is active."""

    __slots__ = ("_bases", "_segments")

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._segments: list[Segment] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        """Over a copy: the caller may add and remove while it walks."""
        return iter(list(self._segments))

    def newest_first(self) -> Iterator[Segment]:
        return reversed(self._segments)

    @property
    def base_offsets(self) -> list[int]:
        return list(self._bases)

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def size_in_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def add(self, segment: Segment) -> None:
        """Adds a segment, in place of one with the same base offset."""
        number = bisect_left(self._bases, segment.base_offset)
        if number < len(self._bases) and self._bases[number] == segment.base_offset:
            self._segments[number] = segment
        else:
            self._bases.insert(number, segment.base_offset)
            self._segments.insert(number, segment)

    def remove(self, segment: Segment) -> None:
        number = self._segments.index(segment)
        del self._bases[number], self._segments[number]

    def floor(self, offset: int) -> Segment | None:
        """The segment that may hold `offset`: the last that starts at or below it."""
        number = bisect_right(self._bases, offset) - 1
        return self._segments[number] if number >= 0 else None

    def higher(self, base_offset: int) -> Segment | None:
        """The first segment that starts above `base_offset`."""
        number = bisect_right(self._bases, base_offset)
        return self._segments[number] if number < len(self._segments) else None

    def between(self, start: int, end: int) -> list[Segment]:
        """The segments that may hold offsets from `start` to below `end`."""
        first = max(0, bisect_right(self._bases, start) - 1)
        return self._segments[first : bisect_left(self._bases, end)]
