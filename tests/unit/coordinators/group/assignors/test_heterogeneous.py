"""Members with different subscriptions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kaa.coordinators.group.assignors.heterogeneous import assign_heterogeneous
from kaa.coordinators.group.assignors.table import GroupAssignment
from kaa.model.pieces import finish
from kaa.wire.primitives import Uuid
from tests.unit.coordinators.group.assignors.test_table import T, U, spec
from tests.unit.coordinators.group.assignors.test_uniform import sizes

TOPICS = [Uuid(bytes([number]) * 16) for number in range(5)]


def test_those_who_can_take_more() -> None:
    found = finish(assign_heterogeneous(spec({"a": [T, U], "b": [T]}, {T: 4, U: 3})))
    assert sorted(sizes(found).values()) == [3, 4]
    assert found["a"][U] == frozenset(range(3))


def test_a_new_member_is_given_some() -> None:
    before: GroupAssignment = {"a": {T: frozenset(range(6))}}
    members = {"a": [T, U], "b": [T]}
    found = finish(assign_heterogeneous(spec(members, {T: 6, U: 0}, before)))
    assert sizes(found) == {"a": 3, "b": 3}
    assert found["a"][T] < before["a"][T]


def test_nothing_subscribed() -> None:
    assert finish(assign_heterogeneous(spec({"a": [], "b": []}, {}))) == {}


@given(
    subscriptions=st.lists(st.sets(st.sampled_from(TOPICS)), min_size=1, max_size=12),
    counts=st.lists(st.integers(1, 20), min_size=5, max_size=5),
)
def test_every_partition_has_one_owner_who_subscribes(
    subscriptions: list[set[Uuid]], counts: list[int]
) -> None:
    members = {f"m{number}": topics for number, topics in enumerate(subscriptions)}
    partitions = dict(zip(TOPICS, counts, strict=True))
    group = spec({one: list(topics) for one, topics in members.items()}, partitions)
    found = finish(assign_heterogeneous(group))
    owners = [(topic, one) for owned in found.values() for topic in owned for one in owned[topic]]
    assert len(owners) == len(set(owners))
    subscribed = set().union(*subscriptions)
    assert len(owners) == sum(partitions[topic] for topic in subscribed)
    assert all(set(owned) <= members[one] for one, owned in found.items())
    if subscribed:
        again = spec({one: list(topics) for one, topics in members.items()}, partitions, found)
        moved = finish(assign_heterogeneous(again))
        assert sorted(sizes(moved).values()) == sorted(sizes(found).values())
