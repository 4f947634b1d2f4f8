"""Work that is done in pieces, so that the one who does it can serve others in between.

A decision about thousands of partitions takes tens of milliseconds. It is written as a generator
that yields after each piece of it; what it depends on must not change until it has ended.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from kaa.limits import RECORDS_PER_PIECE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Found = TypeVar("Found")
Item = TypeVar("Item")

Pieces = Generator[None, None, Found]


def finish(pieces: Generator[object, None, Found]) -> Found:
    """Does all of it at once, whatever it says on the way."""
    while True:
        try:
            next(pieces)
        except StopIteration as stop:
            found: Found = stop.value
            return found


def in_pieces(work: Found | Pieces[Found]) -> Pieces[Found]:
    """The same for work that was done at once and for work that is done in pieces."""
    return (yield from work) if isinstance(work, Generator) else work


def mapped(function: Callable[[Item], Found], items: Iterable[Item]) -> Pieces[list[Found]]:
    """What the function gives for each item."""
    found: list[Found] = []
    rest = iter(items)
    while piece := [function(item) for item in islice(rest, RECORDS_PER_PIECE)]:
        found += piece
        if len(piece) == RECORDS_PER_PIECE:
            yield
    return found
