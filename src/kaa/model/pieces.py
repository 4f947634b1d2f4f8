"""Work that is done in pieces, so that the one who does it can serve others in between.

A decision about thousands of partitions takes tens of milliseconds. It is written as a generator
that yields after each piece of it; what it depends on must not change until it has ended.
"""

from __future__ import annotations

from collections.abc import Generator
from heapq import merge
from itertools import groupby, islice
from typing import TYPE_CHECKING, TypeVar

from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX, RECORDS_PER_PIECE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Found = TypeVar("Found")
Item = TypeVar("Item")
Part = TypeVar("Part")
Made = TypeVar("Made")

Pieces = Generator[None, None, Found]


def finish(pieces: Generator[object, None, Found]) -> Found:
    """Does all of it at once, whatever it says on the way."""
    while True:
        try:
            next(pieces)
        except StopIteration as stop:
            found: Found = stop.value
            return found


def begun(pieces: Pieces[None]) -> Pieces[None] | None:
    """Does the first piece; what is left, if that was not all."""
    for _ in pieces:
        return pieces
    return None


def attempted(pieces: Pieces[Found]) -> Found | Pieces[Found]:
    """Does the first piece; what the work gives if that was all of it, else what is left."""
    try:
        next(pieces)
    except StopIteration as stop:
        found: Found = stop.value
        return found
    return pieces


def in_pieces(work: Found | Pieces[Found]) -> Pieces[Found]:
    """The same for work that was done at once and for work that is done in pieces."""
    return (yield from work) if isinstance(work, Generator) else work


def emptied(*lists: Sequence[object]) -> Pieces[None]:
    """Empties lists of thousands of things that nobody else needs."""
    for things in lists:
        while isinstance(things, list) and things:
            del things[-RECORDS_PER_PIECE:]
            yield


def in_order(names: Iterable[str]) -> Pieces[Iterator[str]]:
    """The names in order, each once. However many there are, no piece sorts more than a part of
    them; the parts are put together on the way through.
    """
    runs: list[list[str]] = []
    rest = iter(names)
    while part := list(islice(rest, NAMES_ANSWERED_PER_SLICE_MAX)):
        runs.append(sorted(part))
        if len(part) == NAMES_ANSWERED_PER_SLICE_MAX:
            yield
    return (name for name, _ in groupby(merge(*runs)))


def distinct(names: Iterable[str]) -> Pieces[dict[str, None]]:
    """The names as they come, each once."""
    found: dict[str, None] = {}
    rest = iter(names)
    while some := list(islice(rest, NAMES_ANSWERED_PER_SLICE_MAX)):
        found |= dict.fromkeys(some)
        if len(some) == NAMES_ANSWERED_PER_SLICE_MAX:
            yield
    return found


def mapped(
    function: Callable[[Item], Found],
    items: Iterable[Item],
    count_per_piece: int = RECORDS_PER_PIECE,
) -> Pieces[list[Found]]:
    """What the function gives for each item."""
    found: list[Found] = []
    rest = iter(items)
    while piece := [function(item) for item in islice(rest, count_per_piece)]:
        found += piece
        if len(piece) == count_per_piece:
            yield
    return found


def mapped_groups(
    groups: Iterable[Item],
    members: Callable[[Item], Iterable[Part]],
    function: Callable[[Part], Made],
    join: Callable[[Item, list[Made]], Found],
) -> Pieces[list[Found]]:
    """What `join` makes of each group, as a topic, and of what the function gives for each of its
    members. Many small groups take turns as one large one does.
    """
    found: list[Found] = []
    left = RECORDS_PER_PIECE
    for group in groups:
        made: list[Made] = []
        for member in members(group):
            made.append(function(member))
            left -= 1
            if left <= 0:
                left = RECORDS_PER_PIECE
                yield
        found.append(join(group, made))
        left -= 1
        if left <= 0:
            left = RECORDS_PER_PIECE
            yield
    return found
