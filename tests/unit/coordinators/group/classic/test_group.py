from __future__ import annotations

import itertools

import pytest

from kaa.coordinators.group.classic.group import ClassicGroup, ClassicGroupState, ClassicMember
from kaa.coordinators.machine import CoordinatorError
from kaa.wire.errors import Errors
from tests.unit.coordinators.group.bench import subscription

LEGAL = {
    ("Empty", "PreparingRebalance"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("PreparingRebalance", "Empty"),
    ("CompletingRebalance", "Stable"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("Stable", "PreparingRebalance"),
    *((state.value, "Dead") for state in ClassicGroupState),
}


def member(name: str, *protocols: str, instance: str | None = None) -> ClassicMember:
    supported = tuple((one, subscription(name)) for one in protocols or ("range",))
    return ClassicMember(name, instance, "client", "/host", 60_000, 10_000, supported)


@pytest.mark.parametrize(
    ("before", "after"), list(itertools.product(ClassicGroupState, ClassicGroupState))
)
def test_transitions(before: ClassicGroupState, after: ClassicGroupState) -> None:
    group = ClassicGroup("g", 1)
    group.state = before
    if (before.value, after.value) in LEGAL:
        group.transition_to(after, 7)
        assert (group.previous_state, group.state, group.state_timestamp_ms) == (before, after, 7)
    else:
        with pytest.raises(AssertionError, match=f"{before.value} -> {after.value}"):
            group.transition_to(after, 7)


def test_the_first_member_leads_and_decides_the_type() -> None:
    group = ClassicGroup("g", 1)
    group.add(member("a"), "consumer")
    group.add(member("b"), "consumer")
    assert (group.leader_id, group.protocol_type) == ("a", "consumer")
    group.remove("a")
    assert group.leader_id == "b"
    group.remove("b")
    assert group.leader_id is None


def test_what_everybody_supports() -> None:
    group = ClassicGroup("g", 1)
    group.add(member("a", "range", "sticky"), "consumer")
    group.add(member("b", "sticky"), "consumer")
    group.state = ClassicGroupState.STABLE
    assert group.supports("consumer", (("sticky", b""),))
    assert not group.supports("consumer", (("range", b""),))
    assert group.select_protocol() == "sticky"
    group.remove("b")
    assert group.supports("consumer", (("range", b""),))


def test_topics_of_all_members() -> None:
    group = ClassicGroup("g", 1)
    group.protocol_type = "consumer"
    assert group.compute_subscribed_topics() == frozenset()
    group.add(member("a"), "consumer")
    group.add(member("b"), "consumer")
    assert group.compute_subscribed_topics() is None, "no protocol is chosen yet"
    group.protocol_name = "range"
    assert group.compute_subscribed_topics() == frozenset({"a", "b"})


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\xff\xff", b"\0\0\xff\xff\xff\xf0"])
def test_subscriptions_that_make_no_sense(metadata: bytes) -> None:
    group = ClassicGroup("g", 1)
    broken = member("a")
    broken.protocols = (("range", metadata),)
    group.add(broken, "consumer")
    group.protocol_name = "range"
    assert group.compute_subscribed_topics() is None


@pytest.mark.parametrize("state", list(ClassicGroupState))
def test_what_may_be_deleted(state: ClassicGroupState) -> None:
    def error(check: object) -> Errors:
        try:
            check()  # type: ignore[operator]
        except CoordinatorError as refusal:
            return refusal.error
        return Errors.NONE

    group = ClassicGroup("g", 1)
    group.state = state
    group.protocol_type = "connect"
    expected = {
        ClassicGroupState.EMPTY: Errors.NONE,
        ClassicGroupState.DEAD: Errors.GROUP_ID_NOT_FOUND,
    }.get(state, Errors.NON_EMPTY_GROUP)
    assert error(group.validate_delete) is expected
    assert error(group.validate_offset_delete) is expected
