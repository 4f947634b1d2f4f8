"""Answers of very many parts, made in turns of the loop.

One that is small is made at once. A large one is made slice by slice, with turns for others in
between; the next request of its connection waits as ever. What each part costs is the handler's to
say, in parts of the smallest kind (a partition, a setting). A part that may be large itself, as a
topic with thousands of partitions, is made in pieces.
"""

from __future__ import annotations

import asyncio
from itertools import accumulate, islice
from typing import TYPE_CHECKING, TypeVar

from kaa.model.pieces import finish
from kaa.model.turns import Turns, in_turns
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kaa.handlers.context import Answer
    from kaa.model.pieces import Pieces

Item = TypeVar("Item")
Part = TypeVar("Part")
R = TypeVar("R")


def in_slices(
    items: Sequence[Item],
    make: Callable[[Item], Part],
    respond: Callable[[list[Part]], R],
    *,
    slice_max: int,
    cost: Callable[[Item], int] = lambda _: 1,
) -> Answer[R]:
    """The response that `respond` makes of what `make` gives for each item, in order."""

    def made(item: Item) -> Pieces[Part]:
        yield from ()
        return make(item)

    return in_slices_and_pieces(items, made, respond, slice_max=slice_max, cost=cost)


def in_slices_and_pieces(
    items: Sequence[Item],
    make: Callable[[Item], Pieces[Part]],
    respond: Callable[[list[Part]], R],
    *,
    slice_max: int,
    cost: Callable[[Item], int],
) -> Answer[R]:
    """The same where a single item may be large."""
    if _is_small(items, slice_max, cost):
        return respond([finish(make(item)) for item in items])
    return Pending(_made(items, make, respond, slice_max, cost))


def begun_at_once(response: Pieces[R]) -> Answer[R]:
    """The response of work in pieces: at once if it has only one."""
    try:
        next(response)
    except StopIteration as stop:
        found: R = stop.value
        return found
    return Pending(in_turns(response))


def _is_small(items: Sequence[Item], slice_max: int, cost: Callable[[Item], int]) -> bool:
    """Found out without a look at all of very many."""
    return all(spent <= slice_max for spent in accumulate(map(cost, items)))


async def _made(
    items: Sequence[Item],
    make: Callable[[Item], Pieces[Part]],
    respond: Callable[[list[Part]], R],
    slice_max: int,
    cost: Callable[[Item], int],
) -> R:
    parts: list[Part] = []
    spent = 0
    for item in items:
        spent += cost(item)
        if spent > slice_max:
            spent = cost(item)
            await asyncio.sleep(0)
        parts.append(await in_turns(make(item)))
    return respond(parts)


def asked_in_slices(
    items: Sequence[Item],
    ask: Callable[[Item], asyncio.Future[Part]],
    respond: Callable[[list[Part]], R],
    *,
    slice_max: int,
) -> Answer[R]:
    """The same where others make the parts: a future each, done at once unless the part is large.
    Never more than one of them is waited for.
    """
    rest = iter(items)
    asked = []
    for item in islice(rest, slice_max):
        asked.append(ask(item))
        if not asked[-1].done():
            break
    else:
        if len(asked) == len(items):
            return respond([one.result() for one in asked])
    return Pending(_asked(asked, rest, ask, respond, slice_max))


async def _asked(
    asked: list[asyncio.Future[Part]],
    rest: Iterator[Item],
    ask: Callable[[Item], asyncio.Future[Part]],
    respond: Callable[[list[Part]], R],
    slice_max: int,
) -> R:
    parts = [await one for one in asked]
    await asyncio.sleep(0)
    turns = Turns(slice_max)
    for item in rest:
        await turns.next()
        parts.append(await ask(item))
    return respond(parts)
