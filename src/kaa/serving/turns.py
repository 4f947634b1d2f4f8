"""Work on very many things, with turns for others in between.

A step for one partition is quick, and so is the start of a task for it; ten thousand of them in one
turn of the loop are not.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from kaa.limits import PARTS_BEGUN_PER_TURN_MAX

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

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


async def gathered(work: Callable[[Item], Awaitable[Found]], items: Iterable[Item]) -> list[Found]:
    """What the work gives for each item, in order; a few of them at a time."""
    found: list[Found] = []
    rest = iter(items)
    while some := list(islice(rest, PARTS_BEGUN_PER_TURN_MAX)):
        found += await asyncio.gather(*map(work, some))
    return found
