"""Heartbeats of consumer groups: joining, following the target, leaving, and being too late."""

from __future__ import annotations

import pytest

from kaa.coordinators.group.consumer.group import ConsumerGroupState
from kaa.coordinators.group.consumer.member import MemberState
from kaa.coordinators.group.settings import ConsumerTimes
from kaa.wire.errors import Errors
from tests.unit.coordinators.group.consumer.bench import ConsumerBench, assigned


def test_the_first_member_gets_everything() -> None:
    bench = ConsumerBench()
    answer = bench.beat("a")
    assert (answer.member_id, answer.member_epoch) == ("a", 2)
    assert answer.heartbeat_interval_ms == 5_000
    assert assigned(answer) == {"t": [0, 1, 2, 3]}
    # Nothing has changed: no assignment, and no records.
    written = len(bench.log)
    assert assigned(bench.beat("a", 2)) is None
    assert len(bench.log) == written
    # A member that says all about itself gets all.
    again = bench.beat("a", 2, topics=["t"], owned={"t": [0, 1, 2, 3]}, rebalance_ms=30_000)
    assert assigned(again) == {"t": [0, 1, 2, 3]}


def test_partitions_move_when_they_are_given_up() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    joined = bench.beat("b")
    assert (joined.member_epoch, assigned(joined)) == (3, {})
    assert bench.consumer_group().state is ConsumerGroupState.RECONCILING
    # The first one keeps its epoch until it has given up what is not its own any more.
    asked = bench.beat("a", 2, owned={"t": [0, 1, 2, 3]})
    kept = assigned(asked)
    assert kept is not None
    assert (asked.member_epoch, len(kept["t"])) == (2, 2)
    assert assigned(bench.beat("b", 3)) is None
    done = bench.beat("a", 2, owned=kept)
    assert done.member_epoch == 3
    got = assigned(bench.beat("b", 3))
    assert got is not None
    assert sorted(kept["t"] + got["t"]) == [0, 1, 2, 3]
    assert bench.consumer_group().state is ConsumerGroupState.STABLE


def test_members_that_leave_make_room() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    bench.beat("b")
    bench.settle("a", "b")
    left = bench.beat("a", -1)
    assert (left.member_id, left.member_epoch) == ("a", -1)
    bench.settle("b")
    assert bench.owned("b") == {"t": [0, 1, 2, 3]}
    bench.beat("b", -1)
    assert bench.consumer_group().state is ConsumerGroupState.EMPTY
    assert bench.beat("b", -1) is Errors.UNKNOWN_MEMBER_ID
    assert (
        bench.machine.timers.next_deadline_ms == bench.settings.offsets_retention_check_interval_ms
    )


def test_a_member_that_is_silent_is_removed_after_its_session() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    bench.beat("b")
    for _ in range(5):
        bench.advance(10_000)
        bench.settle("a", rounds=1)
    assert list(bench.consumer_group().members) == ["a"]
    bench.settle("a")
    assert bench.owned("a") == {"t": [0, 1, 2, 3]}


def test_a_member_that_does_not_give_up_is_removed_after_its_rebalance_timeout() -> None:
    bench = ConsumerBench()
    bench.beat("a", rebalance_ms=20_000)
    bench.beat("b")
    bench.beat("a", 2, owned={"t": [0, 1, 2, 3]})
    assert bench.consumer_group().members["a"].state is MemberState.UNREVOKED_PARTITIONS
    for _ in range(2):
        bench.advance(9_999)
        bench.beat("a", 2, owned={"t": [0, 1, 2, 3]})
        bench.beat("b", 3)
    assert "a" in bench.consumer_group().members
    bench.advance(2)
    assert bench.beat("a", 2) is Errors.UNKNOWN_MEMBER_ID
    bench.settle("b")
    assert bench.owned("b") == {"t": [0, 1, 2, 3]}


def test_epochs_that_do_not_fit_are_fenced() -> None:
    bench = ConsumerBench()
    assert bench.beat("a", 1) is Errors.GROUP_ID_NOT_FOUND
    assert bench.beat("a", -1) is Errors.GROUP_ID_NOT_FOUND
    bench.beat("a")
    assert bench.beat("b", 2) is Errors.UNKNOWN_MEMBER_ID
    assert bench.beat("a", 3) is Errors.FENCED_MEMBER_EPOCH
    assert bench.beat("a", 1) is Errors.FENCED_MEMBER_EPOCH
    bench.beat("b")
    bench.settle("a", "b")
    kept = bench.owned("a")
    # The answer with the newer epoch may have been lost.
    assert bench.beat("a", 2, owned=kept).member_epoch == 3
    assert bench.beat("a", 2, owned={"t": [0, 1, 2, 3]}) is Errors.FENCED_MEMBER_EPOCH
    assert bench.beat("a", 2) is Errors.FENCED_MEMBER_EPOCH
    # A member that joins again may do so at any epoch.
    assert bench.beat("a").member_epoch == 3


def test_subscriptions_that_change() -> None:
    bench = ConsumerBench()
    bench.beat("a", topics=["t", "u"])
    assert bench.owned("a") == {"t": [0, 1, 2, 3], "u": [0, 1]}
    answer = bench.beat("a", 2, topics=["u"], owned=bench.owned("a"))
    assert assigned(answer) == {"u": [0, 1]}
    bench.settle("a")
    assert bench.consumer_group().members["a"].member_epoch == 3
    # A topic that does not exist yet may be subscribed to.
    bench.beat("a", 3, topics=["u", "v"])
    bench.settle("a")
    assert bench.owned("a") == {"u": [0, 1]}
    bench.create("v", 1)
    bench.settle("a")
    assert bench.owned("a") == {"u": [0, 1], "v": [0]}


def test_topics_that_change() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    bench.create("t", 6, start=4)
    bench.create("w", 1)
    assert assigned(bench.beat("a", 2, owned=bench.owned("a"))) == {"t": [0, 1, 2, 3, 4, 5]}
    bench.delete("t")
    answer = bench.beat("a", 3, owned={})
    assert (answer.member_epoch, assigned(answer)) == (4, {})


def test_assignments_have_a_pause_between_them() -> None:
    bench = ConsumerBench(ConsumerTimes(assignment_interval_ms=1_000))
    bench.beat("a")
    assert bench.beat("b").member_epoch == 2
    assert bench.consumer_group().state is ConsumerGroupState.ASSIGNING
    bench.advance(1_000)
    assert bench.beat("b", 2).member_epoch == 3


def test_big_assignments_are_computed_in_slices() -> None:
    bench = ConsumerBench()
    bench.create("big", 5_000)
    bench.beat("a", topics=["big"])
    assert bench.beat("b", topics=["big"]).member_epoch == 1
    assert bench.owned("a") == {}
    bench.advance(1_000)
    bench.settle("a", "b")
    # The first one was computed for a group without the second member, and did not count.
    bench.advance(1_000)
    bench.settle("a", "b")
    assert [len(bench.owned(one)["big"]) for one in ("a", "b")] == [2_500, 2_500]


def test_limits_on_members() -> None:
    bench = ConsumerBench(consumer_size_max=1)
    bench.beat("a")
    assert bench.beat("b") is Errors.GROUP_MAX_SIZE_REACHED
    assert bench.beat("a").member_epoch == 2


def test_the_coordinator_may_make_ids() -> None:
    bench = ConsumerBench()
    assert bench.beat("").member_id == "id-1"


def test_the_assignor_that_most_members_name() -> None:
    bench = ConsumerBench()
    bench.beat("m2", topics=["t", "u"], assignor="range")
    bench.beat("m1", topics=["t", "u"])
    bench.settle("m1", "m2")
    assert bench.owned("m1") == {"t": [0, 1], "u": [0]}
    assert bench.owned("m2") == {"t": [2, 3], "u": [1]}


class TestStaticMembers:
    def test_one_that_leaves_for_a_moment_keeps_its_partitions(self) -> None:
        bench = ConsumerBench()
        bench.beat("a", instance="i")
        bench.beat("b", instance="j")
        bench.settle("a", "b")
        before = bench.owned("a")
        assert bench.beat("a", -2, instance="i").member_epoch == -2
        back = bench.beat("c", instance="i")
        assert (back.member_epoch, assigned(back)) == (3, before)
        assert set(bench.consumer_group().members) == {"b", "c"}
        assert bench.beat("a", 3, instance="i") is Errors.FENCED_INSTANCE_ID

    def test_one_that_does_not_come_back_is_removed(self) -> None:
        bench = ConsumerBench()
        bench.beat("a", instance="i")
        bench.beat("a", -2, instance="i")
        bench.advance(45_000)
        assert bench.consumer_group().is_empty

    def test_a_place_that_is_taken(self) -> None:
        bench = ConsumerBench()
        bench.beat("a", instance="i")
        assert bench.beat("b", instance="i") is Errors.UNRELEASED_INSTANCE_ID
        assert bench.beat("b", 2, instance="i") is Errors.FENCED_INSTANCE_ID
        assert bench.beat("a", 2, instance="k") is Errors.UNKNOWN_MEMBER_ID
        assert bench.beat("b", -2, instance="i") is Errors.FENCED_INSTANCE_ID

    def test_one_that_leaves_for_good(self) -> None:
        bench = ConsumerBench()
        bench.beat("a", instance="i")
        bench.beat("a", -1, instance="i")
        assert bench.consumer_group().is_empty
        assert len(bench.consumer_group().static_members) == 0


class TestFailures:
    def test_what_is_not_appended_did_not_happen(self) -> None:
        bench = ConsumerBench()
        bench.beat("a")
        bench.is_holding = True
        assert bench.beat("b") is None
        bench.fail()
        assert bench.answers["beat of b"] is Errors.NOT_ENOUGH_REPLICAS
        assert list(bench.consumer_group().members) == ["a"]
        assert bench.consumer_group().group_epoch == 2
        assert bench.beat("b").member_epoch == 3

    def test_readers_see_what_is_committed(self) -> None:
        bench = ConsumerBench()
        bench.beat("a")
        bench.is_holding = True
        bench.beat("b")
        assert bench.consumer_group().committed_state is ConsumerGroupState.STABLE
        assert bench.consumer_group().state is ConsumerGroupState.RECONCILING

    def test_a_restart_finds_everything(self) -> None:
        bench = ConsumerBench()
        bench.beat("a")
        bench.beat("b", instance="i")
        bench.beat("a", 2, owned={"t": [0, 1, 2, 3]})
        before = dict(bench.consumer_group().members.items())
        bench.restart()
        assert dict(bench.consumer_group().members.items()) == before
        kept = bench.owned("a")
        assert bench.beat("a", 2, owned=kept).member_epoch == 3
        bench.settle("a", "b")
        assert bench.consumer_group().state is ConsumerGroupState.STABLE
        bench.restart()
        bench.advance(45_000)
        assert bench.consumer_group().is_empty


@pytest.mark.parametrize("is_stable", [False, True])
def test_an_empty_classic_group_gives_way(is_stable: bool) -> None:
    bench = ConsumerBench()
    if is_stable:
        ids = bench.stable("old")
        bench.leave((ids["old"], None))
    else:
        bench.commit_offset(offset=7)
    assert bench.beat("a").member_epoch == 2
    if not is_stable:
        offsets = bench.machine.offsets.of_group("g")
        assert offsets is not None
        assert offsets["t", 0].offset == 7
    bench.restart()
    assert list(bench.consumer_group().members) == ["a"]


class TestLostAnswers:
    """A member that does not report what it was sent gets it again, as librdkafka needs it."""

    def test_what_is_to_be_given_up(self) -> None:
        bench = ConsumerBench()
        bench.beat("a")
        bench.beat("a", 2, owned=bench.owned("a"))
        bench.beat("b")
        bench.advance(1_000)
        assert assigned(bench.beat("a", 2)) == {"t": [0, 1]}
        # It does not say that it has heard.
        assert assigned(bench.beat("a", 2, owned={"t": [0, 1, 2, 3]})) is None
        bench.advance(9_000)
        assert assigned(bench.beat("a", 2)) is None
        bench.advance(1_000)
        assert assigned(bench.beat("a", 2)) == {"t": [0, 1]}
        assert assigned(bench.beat("a", 2)) is None
        assert bench.beat("a", 2, owned={"t": [0, 1]}).member_epoch == 3
        bench.advance(30_000)
        assert assigned(bench.beat("a", 3)) is None

    def test_what_is_given(self) -> None:
        bench = ConsumerBench()
        bench.beat("a")
        bench.beat("a", 2, owned=bench.owned("a"))
        bench.beat("b")
        bench.advance(1_000)
        bench.beat("a", 2)
        bench.beat("b", 3)
        bench.beat("a", 2, owned={"t": [0, 1]})
        given = assigned(bench.beat("b", 3))
        assert given == {"t": [2, 3]}
        assert assigned(bench.beat("b", 3)) is None
        bench.advance(10_000)
        assert assigned(bench.beat("b", 3)) == given
        assert assigned(bench.beat("b", 3, owned=given)) is None
        bench.advance(10_000)
        assert assigned(bench.beat("b", 3)) is None
