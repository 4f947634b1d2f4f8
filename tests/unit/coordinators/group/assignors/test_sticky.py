"""The sticky assignor; that it is Kafka's is shown beside Kafka's own (conformance)."""

from __future__ import annotations

from kaa.coordinators.group.assignors.sticky import Subtopology, TaskMember, assign_tasks

STATEFUL = {"0": Subtopology(4, is_stateful=True)}


def test_a_new_group_gets_ranges_and_keeps_them() -> None:
    members = {name: TaskMember(f"p-{name}", {}, {}) for name in ("a", "b")}
    first = assign_tasks(members, STATEFUL, 1)
    assert first["a"].active == first["b"].standby
    assert first["a"].standby == first["b"].active
    kept = {name: TaskMember(f"p-{name}", *first[name]) for name in members}
    assert assign_tasks(kept, STATEFUL, 1) == first
    # A third member takes its share, and nothing else moves.
    third = assign_tasks(kept | {"c": TaskMember("p-c", {}, {})}, STATEFUL, 0)
    assert all(third[name].active["0"] <= first[name].active["0"] for name in ("a", "b"))
    assert len(third["c"].active["0"]) == 1


def test_a_standby_becomes_active() -> None:
    members = {name: TaskMember(f"p-{name}", {}, {}) for name in ("a", "b")}
    first = assign_tasks(members, STATEFUL, 1)
    left = {"b": TaskMember("p-b", *first["b"])}
    found = assign_tasks(left, STATEFUL, 1)["b"]
    assert found.active == {"0": frozenset(range(4))}
    # No process is left for standbys.
    assert found.standby == {}


def test_threads_of_a_process_share_evenly() -> None:
    members = {f"{name}{number}": TaskMember(name, {}, {}) for name in "pq" for number in range(2)}
    found = assign_tasks(members, {"0": Subtopology(6, is_stateful=False)}, 2)
    assert sorted(len(one.active["0"]) for one in found.values()) == [1, 1, 2, 2]
    assert all(not one.standby for one in found.values())
