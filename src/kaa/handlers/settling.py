"""Requests for partitions whose turn to be made has not come yet.

Right after thousands of partitions were created a request may name them all. To find one makes it
at once (`kaa.replication.manager`), which takes a millisecond or two: so those that a request names
are made one by one first, with turns for others in between. A name that checkpoints still have for
a log that was deleted is waited for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from kaa.limits import REPLICATION_LOOKS_PER_TURN_MAX
from kaa.net.pending import Hold, Pending
from kaa.serving.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kaa.replication.manager import ReplicaManager

A = TypeVar("A")


async def settle(replicas: ReplicaManager, names: Iterable[tuple[str, int]]) -> None:
    """Has these partitions made, so that to find them takes no time."""
    turns = Turns(REPLICATION_LOOKS_PER_TURN_MAX)
    for name in names:
        if not replicas.is_settling:
            return
        await turns.next()
        if replicas.is_waiting(*name):
            await asyncio.sleep(0)
            while not replicas.make_ready(*name):
                await _freed(replicas)
            replicas.find(*name)


async def _freed(replicas: ReplicaManager) -> None:
    freed = asyncio.Event()
    replicas.when_freed(freed.set)
    await freed.wait()


def once_settled(
    replicas: ReplicaManager,
    names: Collection[tuple[str, int]],
    serve: Callable[[], A],
    hold: Hold = Hold.CONNECTION,
) -> A | Pending[Any]:
    """What `serve` gives: at once, or when the partitions of these names are made."""
    if replicas.is_settling and any(replicas.is_waiting(*name) for name in names):
        return Pending(_served(replicas, names, serve), hold)
    return serve()


async def _served(
    replicas: ReplicaManager,
    names: Iterable[tuple[str, int]],
    serve: Callable[[], A],
) -> A:
    await settle(replicas, names)
    return serve()
