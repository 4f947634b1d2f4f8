"""Where replicas should go: plans that move as little as they can.

Pure: the cluster as it is goes in, the replicas of the partitions that change come out. What counts
is the load of a broker, the sum of the weights of its replicas: 1 each, or their bytes.

Each step takes the best place for one replica: a broker that has none of the partition, in a rack
that has none if that can be, with the least load. Balancing moves replicas from the broker with the
most load to the one with the least while that brings them closer, and then changes the order of
replicas, which moves nothing, so that each broker leads about as many partitions as the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.model.words import count_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.model.topics import TopicPartition

Replicas = dict["TopicPartition", list[int]]


class PlanError(Exception):
    """There is no such plan; the message says why."""


class Placed(NamedTuple):
    """A partition as it is."""

    replicas: tuple[int, ...]
    weight: int = 1


class Planner:
    """Changes a copy of the assignment step by step; `changes` are what came of it."""

    def __init__(
        self, partitions: Mapping[TopicPartition, Placed], racks: Mapping[int, str | None]
    ) -> None:
        """`racks` are those of the brokers that may hold replicas, by broker."""
        self._before = partitions
        self._racks = racks
        self._after: Replicas = {name: list(one.replicas) for name, one in partitions.items()}
        self._loads = dict.fromkeys(racks, 0)
        for one in partitions.values():
            for broker in one.replicas:
                self._loads[broker] = self._loads.get(broker, 0) + one.weight

    @property
    def changes(self) -> Replicas:
        return {
            name: replicas
            for name, replicas in self._after.items()
            if tuple(replicas) != self._before[name].replicas
        }

    # --- what may be wished

    def drain(self, broker: int) -> None:
        """Takes every replica off a broker; others take its place in the order."""
        for name, replicas in self._after.items():
            if broker in replicas:
                self._replace(name, broker, self._best(name, without=broker))

    def set_factor(self, names: Iterable[TopicPartition], factor: int) -> None:
        """Gives partitions so many replicas; the leader stays, the most loaded brokers go."""
        for name in names:
            replicas = self._after[name]
            while len(replicas) < factor:
                self._add(name, self._best(name))
            while len(replicas) > max(factor, 1):
                self._remove(name, max(replicas[1:], key=lambda one: (self._loads[one], one)))

    def balance(self, names: Iterable[TopicPartition]) -> None:
        """Evens out the loads of the brokers by moving some of these partitions."""
        movable = sorted(names, key=lambda name: (-self._before[name].weight, name))
        for name in movable:
            # From brokers that may not hold replicas any more.
            for broker in tuple(self._after[name]):
                if broker not in self._racks:
                    self._replace(name, broker, self._best(name, without=broker))
        while self._move_one(movable):
            pass
        self._order(movable)

    # --- steps

    def _move_one(self, movable: list[TopicPartition]) -> bool:
        """Moves the replica that brings two brokers closest; whether there is one."""
        for source in sorted(self._racks, key=lambda one: (-self._loads[one], one)):
            for target in sorted(self._racks, key=lambda one: (self._loads[one], one)):
                gap = self._loads[source] - self._loads[target]
                if gap <= 1:
                    break
                fitting = [
                    name
                    for name in movable
                    if source in self._after[name]
                    and 0 < self._before[name].weight < gap
                    and self._may_replace(name, source, target)
                ]
                if fitting:
                    best = min(
                        fitting, key=lambda name: (abs(gap - 2 * self._before[name].weight), name)
                    )
                    self._replace(best, source, target)
                    return True
        return False

    def _may_replace(self, name: TopicPartition, source: int, target: int) -> bool:
        """Not twice on a broker, and not in fewer racks than before."""
        replicas = self._after[name]
        if target in replicas:
            return False
        others = [self._racks.get(one) for one in replicas if one != source]
        after = {*others, self._racks[target]}
        return len(after) >= len({*others, self._racks.get(source)})

    def _order(self, names: list[TopicPartition]) -> None:
        """Lets every broker come first about equally often."""
        led = dict.fromkeys(self._racks, 0)
        for replicas in self._after.values():
            led[replicas[0]] = led.get(replicas[0], 0) + 1
        for name in names:
            replicas = self._after[name]
            first = min(replicas, key=lambda one: (led[one], replicas.index(one)))
            if led[first] + 1 < led[replicas[0]]:
                led[first] += 1
                led[replicas[0]] -= 1
                replicas.remove(first)
                replicas.insert(0, first)

    def _best(self, name: TopicPartition, without: int | None = None) -> int:
        held = self._after[name]
        free = [one for one in self._racks if one not in held and one != without]
        if not free:
            raise PlanError(
                f"{name.topic}-{name.partition} has {count_text(len(held), 'replica')}, and no "
                "other broker is there for one more; add a broker or lower the replication factor "
                "first"
            )
        used = {self._racks.get(one) for one in held if one != without}
        return min(free, key=lambda one: (self._racks[one] in used, self._loads[one], one))

    def _replace(self, name: TopicPartition, source: int, target: int) -> None:
        replicas, weight = self._after[name], self._before[name].weight
        replicas[replicas.index(source)] = target
        self._loads[source] -= weight
        self._loads[target] += weight

    def _add(self, name: TopicPartition, target: int) -> None:
        self._after[name].append(target)
        self._loads[target] += self._before[name].weight

    def _remove(self, name: TopicPartition, source: int) -> None:
        self._after[name].remove(source)
        self._loads[source] -= self._before[name].weight
