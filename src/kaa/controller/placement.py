"""Where the replicas of new partitions go.

Brokers are striped over racks. Every rack keeps its brokers in a ring that starts at a random one;
partition after partition, the first replica goes to the next unfenced broker of the next rack, and
the others to the next brokers of the racks that follow, fenced ones last. The ring of a rack moves
on by one for each partition. When each unfenced broker has been first once, racks and rings are
shuffled, so that partitions that share their leader do not all share their followers too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.controller.result import ControllerError
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.controller.image import BrokerImage
    from kaa.controller.state import ControllerState
    from kaa.model.seams import RandomSource


def place(
    state: ControllerState, partition_count: int, replication_factor: int
) -> Iterator[list[int]]:
    """The replicas of each new partition, the first to lead. INVALID_REPLICATION_FACTOR."""
    placer = _Placer(_usable_brokers(state), state.random)
    placer.check(replication_factor)
    for _ in range(partition_count):
        yield placer.next(replication_factor)


def _usable_brokers(state: ControllerState) -> list[BrokerImage]:
    return [
        broker
        for broker in state.image.brokers.values()
        if not state.heartbeats.progress(broker.id).is_shutting_down and _has_room(broker)
    ]


def _has_room(broker: BrokerImage) -> bool:
    cordoned = broker.cordoned_directories
    if not broker.directories or cordoned is None:
        return True
    return any(directory not in cordoned for directory in broker.directories)


class _Ring:
    """Brokers of one kind in one rack."""

    def __init__(self, brokers: list[int], random: RandomSource) -> None:
        self._brokers = sorted(brokers)
        self._start = random.randrange(len(brokers)) if brokers else 0
        self._taken = 0
        self._round = 0

    def next(self, round_number: int) -> int | None:
        """The next broker for this partition; None if all of them have it."""
        if not self._brokers:
            return None
        if self._round != round_number:
            self._round = round_number
            self._taken = 0
            self._start = (self._start + 1) % len(self._brokers)
        if self._taken >= len(self._brokers):
            return None
        broker = self._brokers[(self._start + self._taken) % len(self._brokers)]
        self._taken += 1
        return broker

    def shuffle(self, random: RandomSource) -> None:
        random.shuffle(self._brokers)


class _Rack(NamedTuple):
    fenced: _Ring
    unfenced: _Ring

    def next(self, round_number: int) -> int | None:
        broker = self.unfenced.next(round_number)
        return self.fenced.next(round_number) if broker is None else broker


class _Placer:
    def __init__(self, brokers: list[BrokerImage], random: RandomSource) -> None:
        by_rack: dict[str | None, list[BrokerImage]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack, []).append(broker)
        names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self._racks = [
            _Rack(
                _Ring([each.id for each in by_rack[name] if each.is_fenced], random),
                _Ring([each.id for each in by_rack[name] if not each.is_fenced], random),
            )
            for name in names
        ]
        self._order = list(range(len(names)))
        self._random = random
        self._broker_count = len(brokers)
        self._unfenced_count = sum(not broker.is_fenced for broker in brokers)
        self._round = 0
        self._offset = random.randrange(len(names)) if names else 0

    def check(self, replication_factor: int) -> None:
        if replication_factor <= 0:
            raise ControllerError(
                Errors.INVALID_REPLICATION_FACTOR,
                f"the replication factor is {replication_factor}, it must be positive",
            )
        if self._unfenced_count == 0:
            raise ControllerError(
                Errors.INVALID_REPLICATION_FACTOR,
                "all brokers are fenced, or all their log directories are cordoned or offline",
            )
        if replication_factor > self._broker_count:
            raise ControllerError(
                Errors.INVALID_REPLICATION_FACTOR,
                f"replication factor {replication_factor} needs as many brokers, and only "
                f"{self._broker_count} are registered and have a log directory that takes more",
            )

    def next(self, replication_factor: int) -> list[int]:
        """The replicas of the next partition."""
        if self._round == self._unfenced_count and self._unfenced_count > 1:
            self._shuffle()
            self._round = 0
        if self._offset == len(self._order):
            self._offset = 0
        first_rack, leader = self._leader()
        replicas = [leader, *self._followers(first_rack, replication_factor - 1)]
        self._round += 1
        self._offset += 1
        return replicas

    def _leader(self) -> tuple[int, int]:
        """The place of a rack with an unfenced broker, from the current one on, and that broker."""
        count = len(self._order)
        for step in range(count):
            place_of_rack = (self._offset + step) % count
            broker = self._racks[self._order[place_of_rack]].unfenced.next(self._round)
            if broker is not None:
                return place_of_rack, broker
        raise AssertionError("there is an unfenced broker, and no rack has it")

    def _followers(self, first_rack: int, count: int) -> list[int]:
        """One broker of each following rack; the leader's rack is passed over once."""
        followers: list[int] = []
        position = self._offset
        skipped: int | None = first_rack
        while len(followers) < count:
            if position == skipped:
                skipped = None
            else:
                broker = self._racks[self._order[position]].next(self._round)
                if broker is not None:
                    followers.append(broker)
            position = (position + 1) % len(self._order)
        return followers

    def _shuffle(self) -> None:
        self._random.shuffle(self._order)
        for rack in self._racks:
            rack.fenced.shuffle(self._random)
            rack.unfenced.shuffle(self._random)
