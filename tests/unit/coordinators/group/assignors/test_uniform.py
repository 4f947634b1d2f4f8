"""Equal shares, and as little movement as possible."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kaa.coordinators.group.assignors.table import GroupAssignment
from kaa.coordinators.group.assignors.uniform import assign_homogeneous
from kaa.limits import CONSUMER_GROUP_ASSIGNOR_STEP_PARTITIONS_MAX as _STEP
from kaa.model.pieces import finish
from kaa.wire.primitives import Uuid
from tests.unit.coordinators.group.assignors.test_table import T, U, spec


def sizes(assignment: GroupAssignment) -> dict[str, int]:
    return {one: sum(map(len, owned.values())) for one, owned in assignment.items()}


@given(members=st.integers(1, 12), more=st.integers(-11, 5), t=st.integers(1, 40))
def test_shares_are_equal_and_nothing_moves_in_vain(members: int, more: int, t: int) -> None:
    counts = {T: t, U: 3}
    first = {f"m{number}": [T, U] for number in range(members)}
    before = finish(assign_homogeneous(spec(first, counts)))
    then = {f"m{number}": [T, U] for number in range(max(1, members + more))}
    kept = {one: owned for one, owned in before.items() if one in then}
    after = finish(assign_homogeneous(spec(then, counts, kept)))
    found = sizes(after)
    assert max(found.values()) - min(found.values()) <= 1
    assert sum(found.values()) == t + 3
    owners = [(topic, one) for owned in after.values() for topic in owned for one in owned[topic]]
    assert len(owners) == len(set(owners))
    # A member that is not above its share gives nothing up.
    share = (t + 3) // len(then)
    for one, owned in kept.items():
        if sum(map(len, owned.values())) <= share:
            assert all(owned[topic] <= after[one][topic] for topic in owned)


def test_nothing_to_assign() -> None:
    assert finish(assign_homogeneous(spec({"a": []}, {}))) == {}


def test_topics_that_are_not_subscribed_to_any_more() -> None:
    before = {"a": {T: frozenset({0, 1}), U: frozenset({0})}}
    found = finish(assign_homogeneous(spec({"a": [U]}, {U: 1}, before)))
    assert found == {"a": {U: frozenset({0})}}


def test_what_a_member_keeps_is_looked_at_in_steps() -> None:
    topics = [Uuid(number.to_bytes(16)) for number in range(4)]
    counts = dict.fromkeys(topics, _STEP)
    kept = {"a": {topic: frozenset(range(_STEP)) for topic in topics}}
    new, old = (
        sum(1 for _ in assign_homogeneous(spec({"a": topics}, counts, before)))
        for before in (None, kept)
    )
    # One for each step of the topics and one for the member; a new one is given its share, in as
    # many steps and one for the few topics.
    assert new == len(topics) + 1 + len(topics) + 1
    assert old == len(topics) + 1 + len(topics)
