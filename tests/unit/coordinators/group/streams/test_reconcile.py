"""How members come to their tasks."""

from __future__ import annotations

from tests.unit.coordinators.group.streams.bench import (
    AT_ONCE,
    StreamsBench,
    info,
    shown,
    subtopology,
    topology,
)


def test_tasks_move_when_they_are_given_up() -> None:
    bench = StreamsBench()
    bench.ask("a")
    answer = bench.ask("b")
    assert (answer.member_epoch, shown(answer.active_tasks)) == (3, {})
    assert bench.streams_group.shown_state == "Reconciling"
    kept = shown(bench.ask("a", 2, {"0": [0, 1, 2, 3]}).active_tasks)
    assert kept is not None
    assert len(kept["0"]) == 2
    # It still has what it is to give up: nothing happens.
    assert bench.ask("a", 2, {"0": [0, 1, 2, 3]}).active_tasks is None
    assert shown(bench.ask("b", 3, {}).active_tasks) is None
    assert bench.ask("a", 2, kept).member_epoch == 3
    given = shown(bench.ask("b", 3, {}).active_tasks)
    assert given is not None
    assert sorted(kept["0"] + given["0"]) == [0, 1, 2, 3]
    assert bench.streams_group.shown_state == "Stable"


def test_standbys_are_kept_by_other_processes() -> None:
    bench = StreamsBench(AT_ONCE._replace(num_standby_replicas=1))
    bench.create("c", 4)
    stateful = topology(subtopology(state_changelog_topics=[info("c")]))
    bench.ask("a", topology=stateful)
    bench.ask("b", topology=stateful)
    bench.ask("a", 2, {"0": []})
    bench.ask("b", 3, {})
    answer = bench.ask("a", 3, {"0": []})
    assert answer.member_epoch == 3
    group = bench.streams_group
    for name, other in (("a", "b"), ("b", "a")):
        assert group.target(name).active == group.target(other).standby
    # The setting is dynamic: the next heartbeat assigns without standbys.
    bench.streams_times = AT_ONCE
    bench.ask("a", 3, {})
    assert group.target("a").standby == {}
