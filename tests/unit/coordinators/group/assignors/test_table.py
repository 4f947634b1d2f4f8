"""The range assignor, and the choice between the ways of the uniform one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kaa.coordinators.group.assignors.table import (
    ASSIGNORS,
    GroupAssignment,
    GroupSpec,
    MemberSpec,
)
from kaa.coordinators.group.java_order import map_order, string_hash
from kaa.model.pieces import finish
from kaa.wire.primitives import Uuid

T, U = Uuid(b"t" * 16), Uuid(b"u" * 16)


def spec(
    members: Mapping[str, Iterable[Uuid]],
    counts: dict[Uuid, int],
    before: GroupAssignment | None = None,
    instances: dict[str, str] | None = None,
) -> GroupSpec:
    had = before or {}
    assigned: dict[Uuid, frozenset[int]] = {}
    for owned in had.values():
        for topic_id, numbers in owned.items():
            assigned[topic_id] = assigned.get(topic_id, frozenset()) | numbers
    found = {
        one: MemberSpec((instances or {}).get(one), frozenset(members[one]), had.get(one, {}))
        for one in map_order(members, string_hash)
    }
    same = len({member.topic_ids for member in found.values()}) == 1
    return GroupSpec(found, same, assigned, counts)


def shown(assignment: GroupAssignment, topic_id: Uuid = T) -> dict[str, list[int]]:
    return {one: sorted(owned.get(topic_id, ())) for one, owned in assignment.items()}


def test_ranges_are_contiguous() -> None:
    found = finish(ASSIGNORS["range"](spec({"a": [T], "b": [T], "c": [T]}, {T: 7})))
    assert shown(found) == {"a": [0, 1, 2], "b": [3, 4], "c": [5, 6]}


def test_equal_topics_are_co_partitioned() -> None:
    found = finish(ASSIGNORS["range"](spec({"a": [T, U], "b": [T, U]}, {T: 3, U: 3})))
    assert shown(found, T) == shown(found, U) == {"a": [0, 1], "b": [2]}


def test_static_members_come_first() -> None:
    members = {"a": [T], "b": [T], "c": [T]}
    group = spec(members, {T: 3}, instances={"c": "1", "b": "2"})
    assert shown(finish(ASSIGNORS["range"](group))) == {"c": [0], "b": [1], "a": [2]}


def test_ranges_among_those_who_subscribe() -> None:
    found = finish(ASSIGNORS["range"](spec({"a": [T, U], "b": [T], "c": []}, {T: 2, U: 2})))
    assert shown(found, T) == {"a": [0], "b": [1], "c": []}
    assert shown(found, U) == {"a": [0, 1], "b": [], "c": []}


def test_nobody_gets_nothing() -> None:
    for assign in ASSIGNORS.values():
        assert finish(assign(GroupSpec({}, True, {}, {}))) == {}


def test_uniform_takes_the_way_that_fits() -> None:
    same = finish(ASSIGNORS["uniform"](spec({"a": [T], "b": [T]}, {T: 5})))
    assert sorted(map(len, shown(same).values())) == [2, 3]
    other = finish(ASSIGNORS["uniform"](spec({"a": [T], "b": [U]}, {T: 5, U: 1})))
    assert shown(other) == {"a": [0, 1, 2, 3, 4], "b": []}


def test_work_grows_with_the_group() -> None:
    small, big = spec({"a": [T]}, {T: 1}), spec({"a": [T]}, {T: 10_000})
    assert small.work < big.work
