"""Answers of very many parts, made in turns of the loop.

One that is small is made at once. A large one is made slice by slice, with turns for others in
between, and encoded by a thread; the next request of its connection waits as ever. What each part
costs is the handler's to say, in parts of the smallest kind (a partition, a setting). A part that
may be large itself, as a topic with thousands of partitions, is made in pieces.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from kaa.handlers.context import Encoded
from kaa.model.pieces import finish
from kaa.net.pending import Pending
from kaa.serving.turns import Turns, in_turns
from kaa.wire.frames import encode_response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import NodeServices
    from kaa.wire.schema import Response

Item = TypeVar("Item")
Part = TypeVar("Part")


def in_slices(
    services: NodeServices,
    context: RequestContext,
    items: Sequence[Item],
    make: Callable[[Item], Part],
    respond: Callable[[list[Part]], Response],
    *,
    slice_max: int,
    cost: Callable[[Item], int] = lambda _: 1,
) -> Answer[Response | Encoded]:
    """The response that `respond` makes of what `make` gives for each item, in order."""

    def made(item: Item) -> Pieces[Part]:
        yield from ()
        return make(item)

    return in_slices_and_pieces(
        services, context, items, made, respond, slice_max=slice_max, cost=cost
    )


def in_slices_and_pieces(
    services: NodeServices,
    context: RequestContext,
    items: Sequence[Item],
    make: Callable[[Item], Pieces[Part]],
    respond: Callable[[list[Part]], Response],
    *,
    slice_max: int,
    cost: Callable[[Item], int],
) -> Answer[Response | Encoded]:
    """The same where a single item may be large."""
    if sum(map(cost, items)) <= slice_max:
        return respond([finish(make(item)) for item in items])
    return Pending(_made(services, context, items, make, respond, slice_max, cost))


async def _made(
    services: NodeServices,
    context: RequestContext,
    items: Sequence[Item],
    make: Callable[[Item], Pieces[Part]],
    respond: Callable[[list[Part]], Response],
    slice_max: int,
    cost: Callable[[Item], int],
) -> Encoded:
    parts: list[Part] = []
    spent = 0
    for item in items:
        spent += cost(item)
        if spent > slice_max:
            spent = cost(item)
            await asyncio.sleep(0)
        parts.append(await in_turns(make(item)))
    return await encoded(services, context, respond(parts))


def asked_in_slices(
    services: NodeServices,
    context: RequestContext,
    items: Sequence[Item],
    ask: Callable[[Item], asyncio.Future[Part]],
    respond: Callable[[list[Part]], Response],
    *,
    slice_max: int,
) -> Answer[Response | Encoded]:
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
    return Pending(_asked(services, context, asked, rest, ask, respond, slice_max))


async def _asked(
    services: NodeServices,
    context: RequestContext,
    asked: list[asyncio.Future[Part]],
    rest: Iterator[Item],
    ask: Callable[[Item], asyncio.Future[Part]],
    respond: Callable[[list[Part]], Response],
    slice_max: int,
) -> Encoded:
    parts = [await one for one in asked]
    await asyncio.sleep(0)
    turns = Turns(slice_max)
    for item in rest:
        await turns.next()
        parts.append(await ask(item))
    return await encoded(services, context, respond(parts))


async def encoded(services: NodeServices, context: RequestContext, response: Response) -> Encoded:
    """A large response, encoded by a thread."""
    header = context.header
    arguments = (response, header.api_version, header.correlation_id)
    return Encoded(
        await services.loop.run_in_executor(services.batch_work, encode_response, *arguments)
    )
