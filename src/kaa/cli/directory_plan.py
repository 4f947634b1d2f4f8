"""The plan of `kaa cluster balance-dirs`: which replicas of a broker change their directory.

Pure: the directories as they are go in, the moves come out. Of each broker, the fullest directory
gives a replica to the emptiest one, that which brings both closest to each other, until no replica
does. A replica moves once at most. What is on its way already counts where it goes to; cordoned
directories only give. A broker with a directory that is offline begins no moves, and has no plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaa.client.admin.cluster import LogDir
    from kaa.model.topics import TopicPartition


class DirectoryMove(NamedTuple):
    """A replica that goes from one directory of its broker to another."""

    broker_id: int
    partition: TopicPartition
    source: str
    target: str
    size_bytes: int


def balance(found: Iterable[LogDir]) -> list[DirectoryMove]:
    """The moves that even the directories of each broker out; failed directories are left alone."""
    by_broker: dict[int, list[LogDir]] = {}
    for one in found:
        by_broker.setdefault(one.broker_id, []).append(one)
    return [
        move
        for dirs in by_broker.values()
        if not any(one.error for one in dirs)
        for move in _balance_broker(dirs)
    ]


def _balance_broker(dirs: Sequence[LogDir]) -> list[DirectoryMove]:
    coming = {replica.partition for one in dirs for replica in one.replicas if replica.is_future}
    sizes = {
        replica.partition: replica.size_bytes
        for one in dirs
        for replica in one.replicas
        if not replica.is_future
    }
    loads = {one.path: 0 for one in dirs}
    movable: dict[str, list[TopicPartition]] = {one.path: [] for one in dirs}
    for one in dirs:
        for replica in one.replicas:
            if replica.is_future or replica.partition not in coming:
                loads[one.path] += sizes.get(replica.partition, 0)
            if replica.partition not in coming:
                movable[one.path].append(replica.partition)
    targets = [one.path for one in dirs if not one.is_cordoned]
    moves: list[DirectoryMove] = []
    while targets:
        source = max(loads, key=lambda path: (loads[path], path))
        target = min(targets, key=lambda path: (loads[path], path))
        gap = loads[source] - loads[target]
        fitting = [name for name in movable[source] if 0 < sizes[name] < gap]
        if not fitting:
            return moves
        best = min(fitting, key=lambda name: (abs(gap - 2 * sizes[name]), name))
        movable[source].remove(best)
        loads[source] -= sizes[best]
        loads[target] += sizes[best]
        moves.append(DirectoryMove(dirs[0].broker_id, best, source, target, sizes[best]))
    return moves
