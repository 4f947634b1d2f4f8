"""Partitions whose turn to be made has not come yet.

Right after thousands of partitions were created a request may name them all. To find one makes it
at once (`kaa.replication.manager`), which takes a millisecond or two: so those that a request names
are made one by one first, with turns for others in between. A name that checkpoints still have for
a log that was deleted is waited for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kaa.limits import REPLICATION_LOOKS_PER_TURN_MAX
from kaa.model.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.model.topics import PartitionName, TopicPartition
    from kaa.replication.manager import ReplicaManager


async def until_applied(replicas: ReplicaManager, names: Iterable[PartitionName]) -> None:
    """Has these partitions made, so that to find them takes no time."""
    turns = Turns(REPLICATION_LOOKS_PER_TURN_MAX)
    for name in names:
        if not replicas.has_unapplied:
            return
        await turns.next()
        if replicas.is_unapplied(*name):
            await asyncio.sleep(0)
            while not replicas.make_ready(*name):
                await _freed(replicas)
            replicas.find(*name)


async def until_free(replicas: ReplicaManager, names: Iterable[TopicPartition]) -> None:
    """Has checkpoints written that still have these names, so that to make logs takes no time."""
    turns = Turns(REPLICATION_LOOKS_PER_TURN_MAX)
    for name in names:
        await turns.next()
        while replicas.logs.is_stale(name):
            freed = asyncio.Event()
            replicas.free_names(freed.set)
            await freed.wait()


async def _freed(replicas: ReplicaManager) -> None:
    freed = asyncio.Event()
    replicas.when_freed(freed.set)
    await freed.wait()
