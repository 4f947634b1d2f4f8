"""Streams groups from the first heartbeat to the last member."""

from __future__ import annotations

from kaa.coordinators.group.streams.topology import Status
from kaa.limits import GROUP_TOPICS_PER_PIECE, RECORDS_PER_PIECE, STREAMS_TASKS_PER_PIECE
from kaa.wire.errors import Errors
from kaa.wire.messages.k88_streams_group_heartbeat import CopartitionGroup, Topology
from tests.unit.coordinators.group.streams.bench import (
    AT_ONCE,
    StreamsBench,
    copartitioned,
    info,
    shown,
    subtopology,
    topology,
)


def test_a_member_alone_gets_every_task() -> None:
    bench = StreamsBench()
    answer = bench.ask()
    assert shown(answer.active_tasks) == {"0": [0, 1, 2, 3]}
    assert (answer.member_epoch, answer.heartbeat_interval_ms, answer.status) == (2, 5_000, [])
    assert bench.streams_group.shown_state == "Stable"
    answer = bench.ask("m", 2, {"0": [0, 1, 2, 3]})
    assert (answer.active_tasks, answer.member_epoch) == (None, 2)


def test_who_gives_nothing_up_in_time_is_removed() -> None:
    bench = StreamsBench()
    bench.ask("a")
    bench.ask("b")
    bench.ask("a", 2, {"0": [0, 1, 2, 3]})
    bench.advance(10_000)
    assert bench.ask("a", 2, {"0": [0, 1]}) is Errors.UNKNOWN_MEMBER_ID
    assert shown(bench.ask("b", 3, {}).active_tasks) == {"0": [0, 1, 2, 3]}


def test_a_silent_member_and_one_that_leaves() -> None:
    bench = StreamsBench()
    bench.ask("a")
    bench.ask("b")
    bench.advance(44_000)
    bench.ask("b", 3, {})
    bench.advance(2_000)
    assert list(bench.streams_group.members) == ["b"]
    answer = bench.ask("b", -1)
    assert (answer.member_epoch, answer.status) == (-1, [])
    assert bench.streams_group.shown_state == "Empty"
    assert bench.ask("b", -1) is Errors.UNKNOWN_MEMBER_ID
    assert bench.ask("b", 3) is Errors.UNKNOWN_MEMBER_ID


def test_epochs_are_fenced_but_an_answer_may_be_lost() -> None:
    bench = StreamsBench()
    bench.ask("a")
    assert bench.ask("a", 9) is Errors.FENCED_MEMBER_EPOCH
    assert bench.ask("a", 1, {}) is Errors.FENCED_MEMBER_EPOCH
    bench.create("t", 5, start=4)
    assert bench.ask("a", 2, {"0": [0]}).member_epoch == 3
    assert bench.ask("a", 2, {"0": [0, 4]}).member_epoch == 3
    assert bench.ask("a", 2) is Errors.FENCED_MEMBER_EPOCH
    assert bench.ask("a", 3, {"0": [5]}) is Errors.INVALID_REQUEST
    assert bench.ask("a", 3, {"1": [0]}) is Errors.INVALID_REQUEST


def test_the_first_assignment_waits_for_more_members() -> None:
    times = AT_ONCE._replace(initial_rebalance_delay_ms=3_000)
    bench = StreamsBench(times)
    answer = bench.ask("a")
    assert (answer.member_epoch, shown(answer.active_tasks)) == (1, {})
    assert list(bench.statuses(answer)) == [Status.ASSIGNMENT_DELAYED]
    answer = bench.ask("b")
    assert list(bench.statuses(answer)) == [Status.ASSIGNMENT_DELAYED]
    bench.advance(3_000)
    assert bench.streams_group.epochs.assignment_epoch == 3
    found = [shown(bench.ask(one, 1, {}).active_tasks) for one in ("a", "b")]
    assert sorted(number for tasks in found for number in (tasks or {})["0"]) == [0, 1, 2, 3]


def test_a_shutdown_is_told_until_the_group_is_empty() -> None:
    bench = StreamsBench()
    bench.ask("a")
    bench.ask("b", shutdown_application=True)
    answer = bench.ask("a", 2)
    assert "member b " in bench.statuses(answer)[Status.SHUTDOWN_APPLICATION]
    bench.ask("a", -1)
    bench.ask("b", -1)
    assert bench.ask("c").status == []


def test_a_full_group_and_other_kinds() -> None:
    bench = StreamsBench(streams_size_max=1)
    bench.ask("a")
    assert bench.ask("b") is Errors.GROUP_MAX_SIZE_REACHED
    other = StreamsBench()
    other.beat("x", topics=["t"])
    assert other.ask("a") is Errors.GROUP_ID_NOT_FOUND


def test_a_classic_group_without_members_gives_way_and_the_other_way_round() -> None:
    bench = StreamsBench()
    bench.commit_offset("t", 0, 7)
    bench.ask("a")
    assert bench.streams_group.kind == "streams"
    assert bench.join("c") is Errors.INCONSISTENT_GROUP_PROTOCOL
    bench.ask("a", -1)
    bench.join("c")
    assert bench.machine.groups["g"].kind == "classic"
    assert bench.machine.offsets.of_group("g") is not None


# --- thousands of tasks


def wide_topology() -> Topology:
    return topology(*(subtopology(str(one)) for one in range(GROUP_TOPICS_PER_PIECE + 1)))


def test_an_application_of_very_many_subtopologies_is_handled_in_pieces() -> None:
    bench = StreamsBench()
    bench.ask()
    assert bench.pieces == 0
    bench.ask("m", -1)
    bench = StreamsBench()
    owned = shown(bench.ask(topology=wide_topology()).active_tasks)
    assert owned == {str(one): [0, 1, 2, 3] for one in range(GROUP_TOPICS_PER_PIECE + 1)}
    assert bench.pieces > 3 * 4 * GROUP_TOPICS_PER_PIECE // STREAMS_TASKS_PER_PIECE
    assert bench.ask("m", 2, owned).active_tasks is None
    assert bench.pieces > 0


def test_a_subtopology_of_very_many_tasks_is_handled_in_pieces() -> None:
    bench = StreamsBench()
    bench.create("wide", STREAMS_TASKS_PER_PIECE + 1)
    answer = bench.ask(topology=topology(subtopology("0", "wide")))
    assert shown(answer.active_tasks) == {"0": list(range(STREAMS_TASKS_PER_PIECE + 1))}
    assert bench.pieces > 0


def test_a_topic_that_goes_between_two_pieces_is_missed_by_the_next_heartbeat() -> None:
    wide = wide_topology()
    wide.subtopologies.append(subtopology("last", "u"))
    count = 1
    piece = 0
    while piece < count:
        bench = StreamsBench()
        bench.create("u", 1)

        def delete_then(bench: StreamsBench = bench, piece: int = piece) -> None:
            if bench.pieces == piece + 1:
                bench.delete("u")

        owned = shown(bench.ask(topology=wide).active_tasks)
        # Topics are looked at again after any change of theirs.
        bench.create("v", 1)
        bench.between = delete_then
        answer = bench.ask("m", 2, owned)
        count = bench.pieces
        bench.between = lambda: None
        answer = bench.ask("m", answer.member_epoch, owned)
        assert set(bench.statuses(answer)) == {Status.MISSING_SOURCE_TOPICS}, piece
        piece += 1
    assert count > 3


def test_an_application_of_very_many_internal_topics_is_handled_in_pieces() -> None:
    bench = StreamsBench()
    changelogs = [info(f"changelog-{number}") for number in range(4_000)]
    bench.ask(topology=topology(subtopology(state_changelog_topics=changelogs)))
    # They are taken over, and hashed, a hundred at a time.
    assert bench.pieces > 2 * len(changelogs) // RECORDS_PER_PIECE


def test_copartition_groups_of_very_many_topics_are_handled_in_pieces() -> None:
    groups = [copartitioned([0], []) for _ in range(3_000)]

    def pieces(*groups: CopartitionGroup) -> int:
        bench = StreamsBench()
        names = [f"n{number}" for number in range(300)]
        for name in names:
            bench.create(name, 1)
        bench.ask(topology=topology(subtopology("0", *names, copartition_groups=list(groups))))
        return bench.pieces

    few = pieces(groups[0])
    assert pieces(*groups) >= few + 2 * len(groups) // GROUP_TOPICS_PER_PIECE
