from __future__ import annotations

from kaa.coordinators.group.streams.member import (
    MemberState,
    OwnedTasks,
    StreamsMember,
    Tasks,
    is_within,
)
from tests.unit.coordinators.group.streams.bench import task_ids


def test_states_of_later_versions_are_unknown() -> None:
    assert [MemberState.of(value) for value in (1, 3, 9)] == [
        MemberState.STABLE,
        MemberState.UNRELEASED_TASKS,
        MemberState.UNKNOWN,
    ]
    member = StreamsMember("m", member_epoch=3)
    assert member.is_reconciled_to(3)
    assert not member.is_reconciled_to(4)
    assert not member._replace(state=MemberState.UNREVOKED_TASKS).is_reconciled_to(3)


def test_tasks_within_others() -> None:
    owned = OwnedTasks({"0": {1: 5}}, {"1": frozenset({2})})
    assert Tasks({"0": frozenset({1, 2})}).has_any(owned)
    assert Tasks({}, {"1": frozenset({2})}).has_any(owned)
    assert not Tasks({"1": frozenset({2})}, {"0": frozenset({1})}).has_any(owned)
    assert is_within(task_ids({"0": [1]}), owned.active)
    assert not is_within(task_ids({"0": [1, 2]}), owned.active)
    assert not is_within(task_ids({"2": []}), owned.active)
    assert not is_within(None, owned.active)
