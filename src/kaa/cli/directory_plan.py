"""The plan of `kaa cluster balance-dirs`: which replicas of a broker change their directory.

Pure: the directories as they are go in, the moves come out. Of each broker, the fullest directory
gives a replica to the emptiest one, that which brings both closest to each other, until no replica
does. A replica moves once at most. What is on its way already counts where it goes to; cordoned
directories only give. A broker with a directory that is offline begins no moves, and has no plan.

No directory gets more than fits on its disk, less some that stays free: a disk that is full takes
its directory offline, with everything that was there before. What a move frees at its source counts
for nothing, since that is there until the move is done. A broker that does not say how much is free
is believed to have enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.limits import DISK_KEPT_FREE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaa.client.admin.cluster import LogDir
    from kaa.model.topics import TopicPartition


# Which part of a disk stays free, for what is written while replicas move; it has a limit in bytes.
_FREE_SHARE: Final = 20


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
    room = {one.path: _room(one, sizes) for one in dirs}
    moves: list[DirectoryMove] = []
    while targets:
        source = max(loads, key=lambda path: (loads[path], path))
        target = min(targets, key=lambda path: (loads[path], path))
        gap = loads[source] - loads[target]
        helpful = [name for name in movable[source] if 0 < sizes[name] < gap]
        if not helpful:
            return moves
        fitting = [name for name in helpful if sizes[name] <= room[target]]
        if not fitting:
            targets.remove(target)
            continue
        best = min(fitting, key=lambda name: (abs(gap - 2 * sizes[name]), name))
        movable[source].remove(best)
        loads[source] -= sizes[best]
        loads[target] += sizes[best]
        room[target] -= sizes[best]
        moves.append(DirectoryMove(dirs[0].broker_id, best, source, target, sizes[best]))
    return moves


def _room(one: LogDir, sizes: Mapping[TopicPartition, int]) -> float:
    """How many bytes may still come to a directory, beside those that are on their way."""
    if one.usable_bytes < 0:
        return float("inf")
    coming = sum(
        max(0, sizes.get(replica.partition, 0) - replica.size_bytes)
        for replica in one.replicas
        if replica.is_future
    )
    kept = min(max(one.total_bytes, 0) // _FREE_SHARE, DISK_KEPT_FREE_BYTES_MAX)
    return max(0, one.usable_bytes - kept - coming)


class Overfull(NamedTuple):
    """A directory that would get more than it has room for."""

    broker_id: int
    path: str
    coming_bytes: int
    room_bytes: int


def overfull(
    found: Sequence[LogDir], wanted: Mapping[tuple[int, TopicPartition], str]
) -> list[Overfull]:
    """The directories that cannot take what is to move to them, by broker and partition."""
    refused: list[Overfull] = []
    for one in found:
        here = {replica.partition for replica in one.replicas}
        sizes = {
            replica.partition: replica.size_bytes
            for other in found
            if other.broker_id == one.broker_id
            for replica in other.replicas
            if not replica.is_future
        }
        coming = sum(
            sizes.get(partition, 0)
            for (broker_id, partition), path in wanted.items()
            if broker_id == one.broker_id and path == one.path and partition not in here
        )
        room = _room(one, sizes)
        if coming > room:
            refused.append(Overfull(one.broker_id, one.path, coming, int(room)))
    return refused
