"""The assignor of share groups: every partition is read by somebody, every member reads something.

Partitions are shared, so there is nothing to wait for. With at least as many partitions as members
each partition has one member; with more members than partitions each partition has as many as it
needs for every member to have one. Members keep what they have as far as that is fair: a member
loses what it has beyond its part, a partition members that are too many, and who lacks something
gets the partitions that lack members, in turn.

If all members subscribe to the same topics, all partitions are shared out together, else topic by
topic. Which members and partitions come first is Kafka's choice, and so that of Java's hash tables
(`java_order`).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from kaa.coordinators.group.java_order import (
    computed_map_order,
    integer_hash,
    map_order,
    set_order,
    sized_map_order,
    string_hash,
    uuid_hash,
)
from kaa.limits import GROUP_PARTITIONS_PER_PIECE, GROUP_TOPICS_PER_PIECE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid

    Owned = Mapping[Uuid, AbstractSet[int]]
    Held = dict[Uuid, set[int]]

Key = TypeVar("Key")
Item = TypeVar("Item")
Found = TypeVar("Found")

# How Java sizes a map that is made for a number of entries.
_LOAD_FACTOR: Final = 0.75


def assign_shared(
    subscriptions: Mapping[str, AbstractSet[Uuid]],
    partitions: Mapping[Uuid, AbstractSet[int]],
    before: Mapping[str, Owned],
    *,
    is_uniform: bool,
) -> Pieces[dict[str, dict[Uuid, frozenset[int]]]]:
    """Partitions by member and topic. `partitions` has those that can be read, `before` what each
    member had; `is_uniform` says that all members subscribe to the same.
    """
    members = map_order(subscriptions, string_hash)
    held = yield from _each(
        members,
        lambda member_id: {
            key: set(before[member_id][key])
            for key in map_order(before.get(member_id, {}), uuid_hash)
        },
    )
    if is_uniform:
        yield from _share_all(subscriptions[members[0]], partitions, held)
    else:
        yield from _share_by_topic([subscriptions[one] for one in members], partitions, held)
    found = yield from _each(
        held,
        lambda owned: {topic_id: frozenset(numbers) for topic_id, numbers in owned.items()},
    )
    return dict(zip(members, found, strict=True))


def _each(
    items: Iterable[Item], work: Callable[[Item], dict[Uuid, Found]]
) -> Pieces[list[dict[Uuid, Found]]]:
    """What the work gives for each, which is as much as there are topics in it."""
    done, count = [], 0
    for item in items:
        one = work(item)
        done.append(one)
        count += 1 + len(one)
        if count >= GROUP_TOPICS_PER_PIECE:
            count = 0
            yield
    return done


def _share_all(
    topic_ids: AbstractSet[Uuid], partitions: Mapping[Uuid, AbstractSet[int]], held: list[Held]
) -> Pieces[None]:
    """All topics together, among all members."""
    hashes: dict[Uuid, int] = {}
    targets = []
    for count, topic_id in enumerate(map_order(topic_ids, uuid_hash), 1):
        hashes[topic_id] = 31 * uuid_hash(topic_id)
        targets += [(topic_id, number) for number in sorted(partitions.get(topic_id, ()))]
        if count % GROUP_TOPICS_PER_PIECE == 0:
            yield
    shared: _Round[tuple[Uuid, int]] = _Round(
        range(len(held)), targets, lambda key: hashes[key[0]] + key[1]
    )
    count = 0
    for member, owned in enumerate(held):
        for topic_id in owned.keys() - topic_ids:
            del owned[topic_id]
        keys = [(key, one) for key in owned for one in _in_order(owned[key])]
        shared.hold(member, keys)
        count += 1 + len(keys)
        if count >= GROUP_PARTITIONS_PER_PIECE:
            count = 0
            yield
    changes = yield from shared.settle()
    for count, (member, (topic_id, number), is_given) in enumerate(changes, 1):
        _change(held[member], topic_id, number, is_given=is_given)
        if count % GROUP_PARTITIONS_PER_PIECE == 0:
            yield


def _share_by_topic(
    subscriptions: Sequence[AbstractSet[Uuid]],
    partitions: Mapping[Uuid, AbstractSet[int]],
    held: list[Held],
) -> Pieces[None]:
    """Each topic among the members that subscribe to it."""
    subscribers: dict[Uuid, list[int]] = {}
    for member, topic_ids in enumerate(subscriptions):
        for topic_id in topic_ids:
            subscribers.setdefault(topic_id, []).append(member)
        yield
    holders: dict[Uuid, list[int]] = {}
    for member, owned in enumerate(held):
        for topic_id in owned:
            holders.setdefault(topic_id, []).append(member)
        yield
    for topic_id, members in subscribers.items():
        shared: _Round[int] = _Round(members, sorted(partitions.get(topic_id, ())), integer_hash)
        for member in holders.get(topic_id, ()):
            shared.hold(member, _in_order(held[member][topic_id]))
        for member, number, is_given in (yield from shared.settle()):
            _change(held[member], topic_id, number, is_given=is_given)


def _change(owned: Held, topic_id: Uuid, number: int, *, is_given: bool) -> None:
    if is_given:
        owned.setdefault(topic_id, set()).add(number)
    else:
        owned[topic_id].remove(number)


class _Round(Generic[Key]):
    """Some partitions, shared out among some members. Members are numbers."""

    def __init__(
        self, members: Sequence[int], partitions: list[Key], hash_of: Callable[[Key], int]
    ) -> None:
        self._partitions = partitions
        self._hash_of = hash_of
        # How many members a partition is to have, and a member of partitions.
        self._sharing = -(-len(members) // len(partitions)) if partitions else 0
        each = self._sharing * len(partitions) / len(members)
        self._wanted = {
            member: ceil(each * (place + 1)) - ceil(each * place)
            for place, member in enumerate(members)
        }
        self._owned: dict[int, dict[Key, None]] = {}
        self._owners: dict[Key, dict[int, None]] = {}
        self._changes: list[tuple[int, Key, bool]] = []

    def hold(self, member: int, keys: Iterable[Key]) -> None:
        """What a member has, who may not subscribe to it any more."""
        for key in keys:
            self._owned.setdefault(member, {})[key] = None
            self._owners.setdefault(key, {})[member] = None

    def settle(self) -> Pieces[list[tuple[int, Key, bool]]]:
        """What changes: member, partition, and whether it is given or taken away."""
        # A table keeps the size that it needed once.
        sizes = {key: len(owners) for key, owners in self._owners.items()}
        count = 0
        for member, owned in self._owned.items():
            count += 1 + len(owned)
            excess = len(owned) - self._wanted.get(member, 0)
            if excess > 0:
                for key in map_order(owned, self._hash_of)[:excess]:
                    self._take(member, key)
            if count >= GROUP_PARTITIONS_PER_PIECE:
                count = 0
                yield
        yield
        for count, (key, owners) in enumerate(self._owners.items(), 1):
            if count % GROUP_PARTITIONS_PER_PIECE == 0:
                yield
            excess = len(owners) - self._sharing
            if excess > 0:
                for member in _grown_order(owners, sizes[key])[:excess]:
                    self._take(member, key)
        yield
        for key in self._partitions:
            self._owners.setdefault(key, {})
        if len(self._partitions) >= GROUP_PARTITIONS_PER_PIECE:
            yield
        yield from self._give()
        return self._changes

    def _take(self, member: int, key: Key) -> None:
        del self._owned[member][key]
        del self._owners[key][member]
        self._changes.append((member, key, False))

    def _give(self) -> Pieces[None]:
        """Who lacks partitions gets those that lack members, in turn."""
        lacking = _Turns(
            member
            for member in sorted(self._wanted)
            if len(self._owned.get(member, ())) < self._wanted[member]
        )
        capacity = int((len(self._partitions) + 1) / _LOAD_FACTOR + 1)
        ordered = yield from computed_map_order(self._owners, self._hash_of, capacity)
        for count, key in enumerate(ordered, 1):
            if not lacking:
                return
            owners = self._owners[key]
            for _ in range(self._sharing - len(owners)):
                member = lacking.next(owners)
                if member is None:
                    break
                owned = self._owned.setdefault(member, {})
                owned[key] = None
                self._changes.append((member, key, True))
                if len(owned) >= self._wanted[member]:
                    lacking.remove(member)
            if count % GROUP_PARTITIONS_PER_PIECE == 0:
                yield


class _Turns:
    """Members that come one after the other, and again from the first as long as some got
    something since.
    """

    def __init__(self, members: Iterable[int]) -> None:
        self._members = dict.fromkeys(members)
        self._rest: Iterator[int] = iter(tuple(self._members))
        self._is_moving = False

    def __bool__(self) -> bool:
        return bool(self._members)

    def next(self, passed_over: Mapping[int, None]) -> int | None:
        """The next member but some, who gets something; None if there is none."""
        while True:
            for member in self._rest:
                if member not in passed_over:
                    self._is_moving = True
                    return member
            if not self._is_moving or not self._members:
                return None
            self._rest = iter(tuple(self._members))
            self._is_moving = False

    def remove(self, member: int) -> None:
        del self._members[member]


def _in_order(numbers: Iterable[int]) -> list[int]:
    return set_order(sorted(numbers), integer_hash)


def _grown_order(members: Iterable[int], size: int) -> list[int]:
    """Members of a set that had a size once."""
    buckets = 16
    while 4 * size > 3 * buckets:
        buckets *= 2
    return sized_map_order(members, integer_hash, buckets)
