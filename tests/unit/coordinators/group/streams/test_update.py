"""The steps of a heartbeat."""

from __future__ import annotations

from kaa.coordinators.group.settings import StreamsTimes
from kaa.coordinators.group.streams.topology import Status
from kaa.wire.errors import Errors
from tests.unit.coordinators.group.streams.bench import (
    StreamsBench,
    info,
    shown,
    subtopology,
    topology,
)


def test_internal_topics_are_asked_for_and_waited_for() -> None:
    bench = StreamsBench()
    wanted = topology(
        subtopology(repartition_sink_topics=["r"], state_changelog_topics=[info("c")]),
        subtopology("1", repartition_source_topics=[info("r")], source_topics=[]),
    )
    answer = bench.ask(topology=wanted)
    assert bench.answered is not None
    assert {name: one.partitions for name, one in bench.answered.topics.items()} == {
        "r": 4,
        "c": 4,
    }
    assert list(bench.statuses(answer)) == [Status.MISSING_INTERNAL_TOPICS]
    assert (shown(answer.active_tasks), bench.streams_group.shown_state) == ({}, "NotReady")
    bench.create("r", 4)
    bench.create("c", 4)
    answer = bench.ask("m", 2, {})
    assert shown(answer.active_tasks) == {"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]}
    assert (answer.status, bench.answered.topics) == ([], {})


def test_a_topology_stays_and_stale_ones_are_told() -> None:
    bench = StreamsBench()
    bench.ask(topology=topology(epoch=1))
    assert bench.ask("b", topology=topology(subtopology("1"), epoch=1)) is Errors.INVALID_REQUEST
    assert bench.ask("b", topology=topology(subtopology("1"), epoch=2)) is Errors.INVALID_REQUEST
    answer = bench.ask("b", topology=topology(subtopology("1")))
    assert list(bench.statuses(answer)) == [Status.STALE_TOPOLOGY]


def test_assignments_have_a_pause_between_them() -> None:
    bench = StreamsBench(StreamsTimes(initial_rebalance_delay_ms=0))
    bench.ask("a")
    answer = bench.ask("b")
    assert list(bench.statuses(answer)) == [Status.ASSIGNMENT_DELAYED]
    bench.advance(1_000)
    assert bench.ask("b", 2, {}).member_epoch == 3
