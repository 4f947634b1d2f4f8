"""Who reads which partition, as the leader of a classic group decides it.

Members of a group agree on the name of an assignor, and any of them may lead; so these decide as
those of Java's client do, and members of both can be in one group.

*range*: topic by topic, the members that subscribe to it get consecutive partitions, the first
ones one more if it does not come out even. *roundrobin*: the partitions of all topics in order go
around the members, passing over those that do not subscribe. Members are in the order of their
instance ids, those with one first, then of their member ids.

Racks do not influence the choice here, as they do in Java where replicas and members name some.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kaa.client.errors import ClientError
from kaa.model.topics import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaa.client.group.consumer_protocol import Subscription


class KnownMember(NamedTuple):
    """A member as the leader knows it."""

    member_id: str
    instance_id: str | None
    subscription: Subscription


Assignments = dict[str, list[TopicPartition]]
"""Partitions by member id; every member is in it."""


class Assignor(Protocol):
    """A way to decide. `is_cooperative`: members keep their partitions while they rejoin."""

    name: str
    is_cooperative: bool

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        """What a member tells the leader besides its subscription."""

    def assign(self, partitions: Mapping[str, int], members: Sequence[KnownMember]) -> Assignments:
        """Decides; `partitions` has the number of partitions of each topic that exists."""


class RangeAssignor:
    """Assigns ranges of partitions, topic by topic (`range`). Has no user data."""

    name = "range"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        return None

    def assign(self, partitions: Mapping[str, int], members: Sequence[KnownMember]) -> Assignments:
        result: Assignments = {member.member_id: [] for member in members}
        for topic, readers in _readers(partitions, members).items():
            each, extra = divmod(partitions[topic], len(readers))
            first = 0
            for index, member in enumerate(readers):
                count = each + (index < extra)
                result[member.member_id] += [
                    TopicPartition(topic, number) for number in range(first, first + count)
                ]
                first += count
        return result


class RoundRobinAssignor:
    """Deals the partitions of all topics out in turn (`roundrobin`). Has no user data."""

    name = "roundrobin"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        return None

    def assign(self, partitions: Mapping[str, int], members: Sequence[KnownMember]) -> Assignments:
        result: Assignments = {member.member_id: [] for member in members}
        turns = cycle(ordered(members))
        for topic in sorted(_readers(partitions, members)):
            for number in range(partitions[topic]):
                member = next(one for one in turns if topic in one.subscription.topics)
                result[member.member_id].append(TopicPartition(topic, number))
        return result


def ordered(members: Iterable[KnownMember]) -> list[KnownMember]:
    """Those with instance ids first, by these; the others by their member ids."""
    return sorted(
        members,
        key=lambda member: (
            member.instance_id is None,
            member.instance_id or "",
            member.member_id,
        ),
    )


def _readers(
    partitions: Mapping[str, int], members: Sequence[KnownMember]
) -> dict[str, list[KnownMember]]:
    """The members that subscribe to each topic that exists."""
    readers: dict[str, list[KnownMember]] = {}
    for member in ordered(members):
        for topic in member.subscription.topics:
            if partitions.get(topic):
                readers.setdefault(topic, []).append(member)
    return readers


_PREFIX: Final = "org.apache.kafka.clients.consumer."
_NAMES: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def assignors_of(names: Iterable[str]) -> list[Assignor]:
    """The assignors of `partition.assignment.strategy`, by Java's class names or short ones."""
    from kaa.client.group.sticky import CooperativeStickyAssignor, StickyAssignor

    known: dict[str, Assignor] = {
        one.name: one
        for one in (
            RangeAssignor(),
            RoundRobinAssignor(),
            StickyAssignor(),
            CooperativeStickyAssignor(),
        )
    }
    found: list[Assignor] = []
    for name in names:
        short = name.removeprefix(_PREFIX)
        one = known.get(_NAMES.get(short, short))
        if one is None:
            raise ClientError(
                f"partition.assignment.strategy {name!r} is not known; use {', '.join(known)}"
            )
        found.append(one)
    if not found:
        raise ClientError("partition.assignment.strategy names no assignor")
    return found
