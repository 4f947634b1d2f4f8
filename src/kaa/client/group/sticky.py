"""Assignment that is even and moves as little as it can.

1. *Who has what.* Each member tells which partitions it had and in which generation. A claim counts
   if its generation is the newest that any member was in, and nobody else claims the same partition
   in that generation; a partition of a topic that is gone or not subscribed to counts for nobody.
2. *Keeping.* Where all members subscribe to the same topics, a member keeps at most its share:
   `total / members`, of which the remainder may keep one more.
3. *Giving.* Partitions without an owner go, those first that fewest members may read, to the member
   that has the least.
4. *Levelling.* Where subscriptions differ, a partition moves from a member to one that has at least
   two fewer and may read it, until there is no such member.

*sticky* carries its claims in bytes of its own (version 1: topics with partitions, and the
generation), since members give everything up before they rejoin. *cooperative-sticky* members keep
what they have; a partition that moves is first taken from its owner and given to nobody, and only
in the rebalance after that to its new one, so that it never has two owners.

| assignor | its user data |
|---|---|
| sticky | array of (topic string, array of int32), generation int32 |
| cooperative-sticky | generation int32 |
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from kaa.client.group.assignors import ordered
from kaa.client.group.consumer_protocol import NO_GENERATION, by_topic
from kaa.model.topics import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaa.client.group.assignors import Assignments, KnownMember

_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")

Claim = tuple[tuple[TopicPartition, ...], int]
"""Partitions that a member had, and the generation in which."""


class StickyAssignor:
    """Keeps partitions where they are as far as it is fair (`sticky`). Members give everything up
    before they rejoin, so that claims travel in the user data.
    """

    name = "sticky"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        if generation_id == NO_GENERATION:
            return None
        topics = by_topic(owned)
        parts = [_INT.pack(len(topics))]
        for topic, numbers in topics.items():
            name = topic.encode()
            parts += [_SHORT.pack(len(name)), name, _INT.pack(len(numbers))]
            parts += [_INT.pack(number) for number in numbers]
        return b"".join((*parts, _INT.pack(generation_id)))

    def assign(self, partitions: Mapping[str, int], members: Sequence[KnownMember]) -> Assignments:
        claims = {
            member.member_id: _sticky_claim(member.subscription.user_data) for member in members
        }
        return assign_sticky(partitions, members, claims)


class CooperativeStickyAssignor:
    """The same for members that keep what they have during a rebalance (`cooperative-sticky`): a
    partition that moves is given to its new owner one rebalance later.
    """

    name = "cooperative-sticky"
    is_cooperative = True

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        return _INT.pack(generation_id)

    def assign(self, partitions: Mapping[str, int], members: Sequence[KnownMember]) -> Assignments:
        claims = {member.member_id: _cooperative_claim(member) for member in members}
        result = assign_sticky(partitions, members, claims)
        owners = {
            partition: member.member_id
            for member in members
            for partition in member.subscription.owned
        }
        return {
            member_id: [
                partition for partition in assigned if owners.get(partition, member_id) == member_id
            ]
            for member_id, assigned in result.items()
        }


def _sticky_claim(data: bytes | None) -> Claim:
    """Bytes that cannot be read do not claim anything, as in Java."""
    if not data:
        return (), NO_GENERATION
    try:
        (count,), position = _INT.unpack_from(data), _INT.size
        claimed: list[TopicPartition] = []
        for _ in range(count):
            (length,) = _SHORT.unpack_from(data, position)
            position += _SHORT.size
            topic = data[position : position + length].decode()
            position += length
            (numbers,) = _INT.unpack_from(data, position)
            position += _INT.size
            for _ in range(numbers):
                claimed.append(TopicPartition(topic, _INT.unpack_from(data, position)[0]))
                position += _INT.size
        # Version 0 ends here.
        generation_id = NO_GENERATION
        if position + _INT.size <= len(data):
            (generation_id,) = _INT.unpack_from(data, position)
    except (struct.error, UnicodeDecodeError):
        return (), NO_GENERATION
    return tuple(claimed), generation_id


def _cooperative_claim(member: KnownMember) -> Claim:
    subscription = member.subscription
    generation_id = subscription.generation_id
    data = subscription.user_data
    if generation_id == NO_GENERATION and data is not None and len(data) >= _INT.size:
        (generation_id,) = _INT.unpack_from(data)
    return subscription.owned, generation_id


def assign_sticky(
    partitions: Mapping[str, int], members: Sequence[KnownMember], claims: Mapping[str, Claim]
) -> Assignments:
    """Assigns in the four steps above. `partitions` has the number of each topic, `claims` what
    each member says that it had.
    """
    topics = {
        member.member_id: {topic for topic in member.subscription.topics if partitions.get(topic)}
        for member in ordered(members)
    }
    result = _valid_claims(topics, partitions, claims)
    is_uniform = len({frozenset(some) for some in topics.values()}) == 1
    if is_uniform:
        _keep_shares(result, sum(partitions[topic] for topic in next(iter(topics.values()))))
    _give(result, topics, partitions)
    if not is_uniform:
        _level(result, topics)
    return result


def _valid_claims(
    topics: Mapping[str, set[str]], partitions: Mapping[str, int], claims: Mapping[str, Claim]
) -> Assignments:
    newest = max(generation_id for _, generation_id in claims.values())
    claimants: dict[TopicPartition, list[str]] = {}
    for member_id, wanted in topics.items():
        owned, generation_id = claims[member_id]
        if generation_id < newest:
            continue
        for one in owned:
            if one.topic in wanted and one.partition < partitions[one.topic]:
                claimants.setdefault(one, []).append(member_id)
    result: Assignments = {member_id: [] for member_id in topics}
    for one, by in claimants.items():
        if len(by) == 1:
            result[by[0]].append(one)
    return result


def _keep_shares(result: Assignments, total: int) -> None:
    """Takes away what members have above their share."""
    least, extra = divmod(total, len(result))
    for assigned in result.values():
        if len(assigned) > least and extra:
            extra -= 1
            del assigned[least + 1 :]
        else:
            del assigned[least:]


def _give(
    result: Assignments, topics: Mapping[str, set[str]], partitions: Mapping[str, int]
) -> None:
    readers: dict[str, list[str]] = {}
    for member_id, wanted in topics.items():
        for topic in wanted:
            readers.setdefault(topic, []).append(member_id)
    taken = {one for assigned in result.values() for one in assigned}
    for topic in sorted(readers, key=lambda topic: (len(readers[topic]), topic)):
        for number in range(partitions[topic]):
            one = TopicPartition(topic, number)
            if one not in taken:
                least = min(readers[topic], key=lambda member_id: len(result[member_id]))
                result[least].append(one)


def _level(result: Assignments, topics: Mapping[str, set[str]]) -> None:
    """Every move makes the sum of squares of the loads smaller, so this ends."""
    moved = True
    while moved:
        moved = False
        for owner in sorted(result, key=lambda member_id: -len(result[member_id])):
            for one in list(result[owner]):
                others = (member_id for member_id in topics if one.topic in topics[member_id])
                least = min(others, key=lambda member_id: len(result[member_id]))
                if len(result[least]) + 1 < len(result[owner]):
                    result[owner].remove(one)
                    result[least].append(one)
                    moved = True
