"""Work on very many things, with turns for others in between.

A step for one partition is quick, and so is the start of a task for it; ten thousand of them in one
turn of the loop are not. Nor are they if each is a task of its own: all that is ready at the same
time is one round of the loop, and nobody else is heard before its end (`Admission`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from kaa.limits import PARTS_BEGUN_PER_TURN_MAX, RECORDS_PER_PIECE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable

    from kaa.model.pieces import Pieces

Item = TypeVar("Item")
Found = TypeVar("Found")


class Turns:
    """For work that may wait in between: others have a turn after so many parts."""

    def __init__(self, slice_max: int) -> None:
        self._slice_max = self._left = slice_max

    async def next(self) -> bool:
        """Before each part; True if others had a turn."""
        if self._left:
            self._left -= 1
            return False
        self._left = self._slice_max - 1
        await asyncio.sleep(0)
        return True


async def in_turns(pieces: Pieces[Found]) -> Found:
    """What the work gives; others have a turn after each piece of it."""
    while True:
        try:
            next(pieces)
        except StopIteration as stop:
            found: Found = stop.value
            return found
        await asyncio.sleep(0)


async def freed(things: list[Any]) -> None:
    """Empties a list that nobody else needs: to free thousands of things at once takes long."""
    while things:
        await asyncio.sleep(0)
        # One may be a topic with all of its settings.
        del things[-RECORDS_PER_PIECE:]


async def gathered(work: Callable[[Item], Awaitable[Found]], items: Iterable[Item]) -> list[Found]:
    """What the work gives for each item, in order; a few of them at a time."""
    found: list[Found] = []
    rest = iter(items)
    while some := list(islice(rest, PARTS_BEGUN_PER_TURN_MAX)):
        found += await asyncio.gather(*map(work, some))
    return found


class _Line:
    """Those of one owner who wait. Who is for the same place goes together, but one who comes later
    goes after the others who are there.
    """

    __slots__ = ("_let_in", "_places")

    def __init__(self) -> None:
        self._let_in: deque[asyncio.Future[None]] = deque()
        self._places: dict[Hashable, deque[asyncio.Future[None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._let_in or self._places)

    def add(self, waiter: asyncio.Future[None], place: Hashable) -> None:
        self._places.setdefault(place, deque()).append(waiter)

    def take(self) -> asyncio.Future[None]:
        if not self._let_in:
            self._let_in = self._places.pop(next(iter(self._places)))
        return self._let_in.popleft()


class Admission:
    """Lets so many tasks begin with something in one round of the loop, however many there are:
    what thousands begin at once is ready at once, again and again until they are done.

    Owners take turns, so that one with thousands does not keep others waiting.
    """

    def __init__(self, per_round_max: int) -> None:
        self._per_round_max = self._left = per_round_max
        # By owner, in the order of their turns.
        self._lines: dict[Hashable, _Line] = {}
        self._is_counting = False

    async def next(self, owner: Hashable, place: Hashable = None) -> None:
        """Returns when it may begin: at once if few do. Those for the same place may share what
        they do, so they begin in the same round if they can.
        """
        if self._left and not self._lines:
            self._left -= 1
            self._count()
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(owner, _Line()).add(waiter, place)
        await waiter

    def _count(self) -> None:
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._begin_round)

    def _begin_round(self) -> None:
        self._is_counting = False
        self._left = self._per_round_max
        while self._left and self._lines:
            owner = next(iter(self._lines))
            line = self._lines.pop(owner)
            waiter = line.take()
            if line:
                self._lines[owner] = line
            if not waiter.done():
                waiter.set_result(None)
                self._left -= 1
        if self._left < self._per_round_max:
            self._count()
