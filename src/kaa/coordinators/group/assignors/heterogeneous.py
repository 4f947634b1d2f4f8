"""The uniform assignor where members subscribe to different topics.

Each member keeps what it has of the topics it still subscribes to. What nobody has is handed out,
topic by topic, to the subscribers with the least. Then topics are gone through again and again: as
long as two subscribers of a topic differ by more than one partition in all, the one with more gives
one of this topic to the one with less. It ends when a whole round changes nothing, or after 16.

Topics are taken in the order of partitions per subscriber, the most first; then of subscribers, the
fewest first; then of their ids. Members with equal numbers are taken in the order of the group.

`_Balancer` finds members without sorting again after every step. Those with the least are a range
at the start of the sorted list, which is gone through from left to right; when all of it has one
more, the range grows by those that have as many. Those with the most are a range that is gone
through from right to left:

    partitions                  #
        |            [ ##<-  ]  #
        | [..->  ] ##[#######]  #    <- has nothing of this topic to give: out of the range
        | [######] ##[#######]  #
        +--------------------------- members
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.java_order import uuid_halves
from kaa.limits import (
    CONSUMER_GROUP_ASSIGNOR_ROUNDS_MAX as _ROUNDS,
)
from kaa.limits import (
    CONSUMER_GROUP_ASSIGNOR_STEP_PARTITIONS_MAX as _STEP,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from kaa.coordinators.group.assignors.table import GroupAssignment, GroupSpec
    from kaa.wire.primitives import Uuid

_NOBODY: Final = -1


def assign_heterogeneous(spec: GroupSpec) -> Generator[None, None, GroupAssignment]:
    return (yield from _Assignment(spec).build())


class _Balancer:
    """Finds the members with the fewest and the most partitions of one topic, without sorting again
    after every step.
    """

    def __init__(self, sizes: list[int]) -> None:
        # How many partitions each member has in all; changed from outside between two calls.
        self._sizes = sizes

    def begin(self, members: list[int]) -> int:
        """Starts with these members; the difference between the most and the least."""
        sizes = self._sizes
        self._members = sorted(members, key=lambda member: (sizes[member], member))
        least, most = sizes[self._members[0]], sizes[self._members[-1]]
        self._least_end = 0
        self._least_size = least - 1
        self._next_least = 0
        self._most_start = self._most_end = len(self._members)
        self._most_size = most + 1
        self._next_most = len(self._members) - 1
        return most - least

    def least(self) -> int:
        """A member to give a partition to."""
        if self._next_least >= self._least_end:
            self._least_size += 1
            while (
                self._least_end < len(self._members)
                and self._sizes[self._members[self._least_end]] == self._least_size
            ):
                self._least_end += 1
            self._next_least = 0
        member = self._members[self._next_least]
        self._next_least += 1
        return member

    def most(self) -> int:
        """A member to take a partition from; _NOBODY if there is none."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                # Everybody was put out of the range: it begins again with the next.
                self._most_size = self._sizes[self._members[self._most_start - 1]]
            else:
                self._most_size -= 1
            while (
                self._most_start > 0
                and self._sizes[self._members[self._most_start - 1]] == self._most_size
            ):
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return _NOBODY
        member = self._members[self._next_most]
        self._next_most -= 1
        return member

    def exclude_most(self) -> None:
        """The last one from `most` has nothing to give."""
        place, end = self._next_most + 1, self._most_end - 1
        members = self._members
        members[place], members[end] = members[end], members[place]
        self._most_end -= 1

    def is_balanced(self) -> bool:
        return self._most_size - self._least_size <= 1


class _Assignment:
    """The assignment in the making. Members are numbered in the order of the group."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._members = list(spec.members.values())
        self._subscribers: dict[Uuid, list[int]] = {}
        for number, member in enumerate(self._members):
            for topic_id in member.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(number)
        self._sizes = [0] * len(self._members)
        self._balancer = _Balancer(self._sizes)
        # By topic: the owner of each partition.
        self._owners = {
            topic_id: [_NOBODY] * spec.partition_counts[topic_id] for topic_id in self._subscribers
        }

    def build(self) -> Generator[None, None, GroupAssignment]:
        if not self._subscribers:
            return {}
        for number, member in enumerate(self._members):
            yield
            for topic_id, partitions in member.assignment.items():
                if topic_id in member.topic_ids:
                    self._sizes[number] += len(partitions)
                    owners = self._owners[topic_id]
                    for partition in partitions:
                        owners[partition] = number
        yield from self._hand_out()
        yield from self._balance()
        return (yield from self._result())

    def _sorted_topics(self, topic_ids: Iterable[Uuid]) -> list[Uuid]:
        def order(topic_id: Uuid) -> tuple[float, int, tuple[int, int]]:
            subscribers = len(self._subscribers[topic_id])
            partitions = self._spec.partition_counts[topic_id]
            return -partitions / subscribers, subscribers, uuid_halves(topic_id)

        return sorted(topic_ids, key=order)

    def _move(self, topic_id: Uuid, partition: int, member: int) -> None:
        owners = self._owners[topic_id]
        before = owners[partition]
        if before != _NOBODY:
            self._sizes[before] -= 1
        owners[partition] = member
        self._sizes[member] += 1

    def _hand_out(self) -> Generator[None, None, None]:
        """Gives what nobody has to those with the least."""
        topics = (topic_id for topic_id, owners in self._owners.items() if _NOBODY in owners)
        for topic_id in self._sorted_topics(topics):
            self._balancer.begin(self._subscribers[topic_id])
            for partition, owner in enumerate(self._owners[topic_id]):
                if partition % _STEP == 0:
                    yield
                if owner == _NOBODY:
                    self._move(topic_id, partition, self._balancer.least())

    def _balance(self) -> Generator[None, None, None]:
        topics = self._sorted_topics(
            topic_id for topic_id, members in self._subscribers.items() if len(members) > 1
        )
        last_changed = -1
        for _ in range(_ROUNDS if topics else 0):
            for place, topic_id in enumerate(topics):
                if place == last_changed:
                    return
                yield
                if self._balance_topic(topic_id) or last_changed == -1:
                    last_changed = place

    def _balance_topic(self, topic_id: Uuid) -> bool:
        """Whether anything moved."""
        balancer = self._balancer
        if balancer.begin(self._subscribers[topic_id]) <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            owned.setdefault(owner, []).append(partition)
        has_moved = False
        while not balancer.is_balanced():
            giver = balancer.most()
            while giver != _NOBODY and not owned.get(giver):
                balancer.exclude_most()
                giver = balancer.most()
            if giver == _NOBODY:
                break
            partition = owned[giver].pop()
            taker = balancer.least()
            if balancer.is_balanced():
                break
            self._move(topic_id, partition, taker)
            has_moved = True
        return has_moved

    def _result(self) -> Generator[None, None, GroupAssignment]:
        found: list[dict[Uuid, list[int]]] = [{} for _ in self._members]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                if partition % _STEP == 0:
                    yield
                if owner != _NOBODY:
                    found[owner].setdefault(topic_id, []).append(partition)
        return {
            member_id: {topic_id: frozenset(numbers) for topic_id, numbers in owned.items()}
            for member_id, owned in zip(self._spec.members, found, strict=True)
        }
