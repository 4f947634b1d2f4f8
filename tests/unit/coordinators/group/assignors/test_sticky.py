"""The sticky assignor; that it is Kafka's is shown beside Kafka's own (conformance)."""

from __future__ import annotations

from kaa.coordinators.group.assignors.sticky import (
    MemberTasks,
    Subtopology,
    TaskMember,
    assign_tasks,
)
from kaa.limits import STREAMS_TASKS_PER_PIECE
from kaa.model.pieces import finish

STATEFUL = {"0": Subtopology(4, is_stateful=True)}


def assigned(
    members: dict[str, TaskMember], subtopologies: dict[str, Subtopology], standby_count: int
) -> dict[str, MemberTasks]:
    return finish(assign_tasks(members, subtopologies, standby_count))


def test_a_new_group_gets_ranges_and_keeps_them() -> None:
    members = {name: TaskMember(f"p-{name}", {}, {}) for name in ("a", "b")}
    first = assigned(members, STATEFUL, 1)
    assert first["a"].active == first["b"].standby
    assert first["a"].standby == first["b"].active
    kept = {name: TaskMember(f"p-{name}", *first[name]) for name in members}
    assert assigned(kept, STATEFUL, 1) == first
    # A third member takes its share, and nothing else moves.
    third = assigned(kept | {"c": TaskMember("p-c", {}, {})}, STATEFUL, 0)
    assert all(third[name].active["0"] <= first[name].active["0"] for name in ("a", "b"))
    assert len(third["c"].active["0"]) == 1


def test_a_standby_becomes_active() -> None:
    members = {name: TaskMember(f"p-{name}", {}, {}) for name in ("a", "b")}
    first = assigned(members, STATEFUL, 1)
    left = {"b": TaskMember("p-b", *first["b"])}
    found = assigned(left, STATEFUL, 1)["b"]
    assert found.active == {"0": frozenset(range(4))}
    # No process is left for standbys.
    assert found.standby == {}


def test_threads_of_a_process_share_evenly() -> None:
    members = {f"{name}{number}": TaskMember(name, {}, {}) for name in "pq" for number in range(2)}
    found = assigned(members, {"0": Subtopology(6, is_stateful=False)}, 2)
    assert sorted(len(one.active["0"]) for one in found.values()) == [1, 1, 2, 2]
    assert all(not one.standby for one in found.values())


def test_thousands_of_tasks_are_assigned_in_pieces() -> None:
    count = 4 * STREAMS_TASKS_PER_PIECE
    wide = {str(number): Subtopology(4, is_stateful=True) for number in range(count // 4)}
    members = {name: TaskMember(f"p-{name}", {}, {}) for name in ("a", "b")}
    assert sum(1 for _ in assign_tasks(members, wide, 1)) >= 3 * 4
    first = assigned(members, wide, 1)
    assert first["a"].active == first["b"].standby
    assert sum(map(len, first["a"].active.values())) == count // 2
    kept = {name: TaskMember(f"p-{name}", *first[name]) for name in members}
    assert assigned(kept, wide, 1) == first
