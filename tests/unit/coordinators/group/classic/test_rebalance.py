"""Deadlines of a classic group, and how its phases end."""

from __future__ import annotations

from kaa.wire.errors import Errors
from tests.unit.coordinators.group.bench import GroupBench


def test_the_first_rebalance_waits_longer_while_members_come() -> None:
    bench = GroupBench()
    bench.join_new("a")
    bench.advance(2_000)
    bench.join_new("b")
    bench.advance(1_000)
    assert bench.state == "PreparingRebalance", "b came meanwhile"
    bench.advance(2_999)
    assert bench.state == "PreparingRebalance"
    bench.advance(1)
    assert bench.state == "CompletingRebalance"
    assert len(bench.answers["a"].members) == 2


def test_the_first_rebalance_does_not_wait_beyond_the_rebalance_timeout() -> None:
    bench = GroupBench()
    bench.join_new("a", rebalance_ms=7_000)
    for number in range(10):
        bench.advance(1_000)
        if bench.state == "CompletingRebalance":
            break
        bench.join_new(f"b{number}", rebalance_ms=7_000)
    assert bench.now_ms == 7_000


def test_without_a_delay_the_first_member_does_not_wait() -> None:
    bench = GroupBench(initial_rebalance_delay_ms=0)
    bench.join_new("a")
    bench.advance(0)
    assert bench.state == "CompletingRebalance"


def test_those_who_do_not_join_in_time_are_left_behind() -> None:
    bench = GroupBench()
    ids = bench.stable("a", "b", rebalance_ms=20_000, session_ms=30_000)
    bench.join("a", ids["a"], rebalance_ms=20_000, session_ms=30_000)
    bench.advance(19_999)
    assert bench.state == "PreparingRebalance"
    bench.advance(1)
    assert bench.answers["a"].generation_id == 2
    assert list(bench.group.members) == [ids["a"]]
    assert bench.heartbeat(ids["b"], 1) is Errors.UNKNOWN_MEMBER_ID


def test_another_leader_is_elected_if_the_leader_does_not_join() -> None:
    bench = GroupBench()
    ids = bench.stable("a", "b", session_ms=120_000)
    bench.join("b", ids["b"], topics=["u"])
    bench.advance(60_000)
    assert bench.answers["b"].leader == ids["b"]


def test_static_members_may_be_absent_until_their_session_ends() -> None:
    bench = GroupBench()
    bench.join("i", instance="i", session_ms=100_000)
    bench.join("j", instance="j", session_ms=100_000)
    bench.advance(6_000)
    given = {"i-1": b"I", "j-2": b"J"}
    bench.sync("i", "i-1", 1, given, instance="i")
    bench.sync("j", "j-2", 1, instance="j")
    bench.join("j", "j-2", instance="j", topics=["u"], session_ms=100_000)
    bench.advance(60_000)
    assert bench.answers["j"].generation_id == 2
    assert set(bench.group.members) == {"i-1", "j-2"}
    assert bench.group.leader_id == "j-2"


def test_a_rebalance_of_absent_static_members_waits_for_their_sessions() -> None:
    bench = GroupBench()
    bench.join("i", instance="i", session_ms=100_000, rebalance_ms=30_000)
    bench.advance(3_000)
    bench.sync("i", "i-1", 1, {"i-1": b"I"}, instance="i")
    member_id = bench.join("d").member_id
    bench.join("d", member_id)
    assert bench.state == "PreparingRebalance"
    bench.leave((member_id, None))
    bench.advance(90_000)
    assert bench.state == "PreparingRebalance", "nobody joined, and the session is not over"
    bench.advance(20_000)
    assert bench.state == "Empty"


def test_silence_ends_a_session() -> None:
    bench = GroupBench()
    ids = bench.stable("a", "b")
    bench.advance(9_000)
    bench.heartbeat(ids["a"], 1)
    bench.advance(1_000)
    assert bench.state == "PreparingRebalance"
    assert list(bench.group.members) == [ids["a"]]
    assert bench.heartbeat(ids["a"], 1) is Errors.REBALANCE_IN_PROGRESS


def test_anyone_who_waits_for_a_rebalance_needs_no_heartbeat() -> None:
    bench = GroupBench()
    ids = bench.stable("a", "b", session_ms=10_000, rebalance_ms=60_000)
    bench.join("a", ids["a"])
    for _ in range(5):
        bench.advance(9_000)
        bench.heartbeat(ids["b"], 1)
    assert set(bench.group.members) == set(ids.values())


def test_a_new_member_without_a_sign_of_life_is_dropped_in_the_end() -> None:
    bench = GroupBench()
    ids = bench.stable("a", session_ms=1_800_000, rebalance_ms=1_800_000)
    bench.join("b", rebalance_ms=1_800_000, version=3)
    bench.advance(299_999)
    assert len(bench.group.members) == 2
    bench.advance(1)
    assert list(bench.group.members) == [ids["a"]]
    assert bench.answers["b"].error_code == Errors.UNKNOWN_MEMBER_ID


def test_a_pending_member_holds_up_the_join_phase_until_it_expires() -> None:
    bench = GroupBench()
    ids = bench.stable("a", session_ms=100_000)
    bench.join("b", session_ms=10_000)
    bench.join("a", ids["a"], session_ms=100_000)
    assert bench.state == "PreparingRebalance"
    bench.advance(10_000)
    assert bench.state == "CompletingRebalance"


def test_those_who_do_not_sync_in_time_are_removed() -> None:
    bench = GroupBench()
    bench.join_new("a", rebalance_ms=20_000, session_ms=30_000)
    bench.join_new("b", rebalance_ms=20_000, session_ms=30_000)
    bench.advance(6_000)
    bench.sync("a", "a-1", 1, {"a-1": b"A"})
    bench.advance(20_000)
    assert bench.state == "PreparingRebalance"
    assert list(bench.group.members) == ["a-1"]


def test_those_who_have_not_synced_are_known_in_the_order_of_the_members() -> None:
    """Not in that of hashes, which differ from run to run."""
    bench = GroupBench()
    for number in range(20):
        bench.join_new(f"c{number}", rebalance_ms=20_000, session_ms=30_000)
    bench.advance(20_000)
    assert bench.state == "CompletingRebalance"
    assert len(bench.group.members) == 20
    assert list(bench.group.pending_syncs) == list(bench.group.members)


def test_a_sync_phase_that_is_over_does_nothing_later() -> None:
    bench = GroupBench()
    ids = bench.stable("a", rebalance_ms=20_000, session_ms=1_000_000)
    bench.advance(100_000)
    assert bench.state == "Stable"
    assert list(bench.group.members) == [ids["a"]]


def test_an_empty_group_is_stored() -> None:
    bench = GroupBench()
    ids = bench.stable("a")
    bench.leave((ids["a"], None))
    bench.restart()
    assert (bench.state, bench.group.generation_id) == ("Empty", 2)
    assert bench.group.protocol_type == "consumer"
    assert bench.group.protocol_name is None
