"""SyncGroup, Heartbeat and LeaveGroup, and what comes after a commit."""

from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from tests.unit.coordinators.group.bench import GROUP, GroupBench


def test_one_member_from_join_to_leave() -> None:
    bench = GroupBench()
    answer = bench.join("a")
    assert (answer.error_code, answer.member_id) == (Errors.MEMBER_ID_REQUIRED, "a-1")
    assert bench.join("a", "a-1") is None, "waits for others"
    bench.advance(3_000)
    joined = bench.answers["a"]
    assert (joined.error_code, joined.generation_id, joined.leader) == (Errors.NONE, 1, "a-1")
    assert (joined.protocol_name, joined.protocol_type) == ("range", "consumer")
    assert [member.member_id for member in joined.members] == ["a-1"]
    assert bench.state == "CompletingRebalance"
    synced = bench.sync("a", "a-1", 1, {"a-1": b"mine"})
    assert (synced.error_code, synced.assignment) == (Errors.NONE, b"mine")
    assert bench.state == "Stable"
    assert bench.heartbeat("a-1", 1) is Errors.NONE
    assert bench.leave(("a-1", None)) == [Errors.NONE]
    assert bench.state == "Empty"
    assert bench.group.generation_id == 2


def test_an_assignment_is_given_out_when_it_is_committed() -> None:
    bench = GroupBench()
    bench.join_new("a")
    bench.join_new("b")
    bench.advance(6_000)
    bench.is_holding = True
    assert bench.sync("b", "b-2", 1) is None
    assert bench.sync("a", "a-1", 1, {"a-1": b"A", "b-2": b"B", "stranger": b"?"}) is None
    assert bench.state == "CompletingRebalance"
    bench.commit()
    assert bench.answers["a"].assignment == b"A"
    assert bench.answers["b"].assignment == b"B"
    assert bench.state == "Stable"
    # A later question gets it at once.
    assert bench.sync("b", "b-2", 1).assignment == b"B"


def test_a_member_without_an_assignment_gets_an_empty_one() -> None:
    bench = GroupBench()
    bench.join_new("a")
    bench.join_new("b")
    bench.advance(6_000)
    bench.sync("a", "a-1", 1, {"a-1": b"A"})
    answer = bench.sync("b", "b-2", 1)
    assert (answer.error_code, answer.assignment) == (Errors.NONE, b"")


def test_an_assignment_that_cannot_be_stored_leads_to_another_rebalance() -> None:
    bench = GroupBench()
    bench.join_new("a")
    bench.advance(3_000)
    bench.is_holding = True
    bench.sync("a", "a-1", 1, {"a-1": b"A"})
    bench.fail(Errors.NOT_ENOUGH_REPLICAS)
    assert bench.answers["a"].error_code == Errors.COORDINATOR_NOT_AVAILABLE
    assert bench.answers["a"].protocol_name is None
    assert bench.state == "PreparingRebalance"


def test_a_commit_that_comes_after_the_next_rebalance_began_changes_nothing() -> None:
    bench = GroupBench()
    bench.join_new("a")
    bench.advance(3_000)
    bench.is_holding = True
    bench.sync("a", "a-1", 1, {"a-1": b"A"})
    bench.join("b", protocol_type="consumer", version=3)
    assert bench.answers["a"].error_code == Errors.REBALANCE_IN_PROGRESS
    bench.commit()
    assert bench.state == "PreparingRebalance"


@pytest.mark.parametrize(
    ("member_id", "generation", "fields", "error"),
    [
        ("nobody", 1, {}, Errors.UNKNOWN_MEMBER_ID),
        ("a-1", 2, {}, Errors.ILLEGAL_GENERATION),
        ("a-1", 1, {"instance": "i"}, Errors.UNKNOWN_MEMBER_ID),
        ("a-1", 1, {"protocol_name": "other"}, Errors.INCONSISTENT_GROUP_PROTOCOL),
        ("a-1", 1, {"protocol_type": "other"}, Errors.INCONSISTENT_GROUP_PROTOCOL),
        ("a-1", 1, {"protocol_type": None, "protocol_name": None}, Errors.NONE),
        ("a-1", 1, {"group": "other"}, Errors.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_sync(
    member_id: str, generation: int, fields: dict[str, str], error: Errors
) -> None:
    bench = GroupBench()
    bench.stable("a")
    assert bench.sync("x", member_id, generation, **fields).error_code == error  # type: ignore[arg-type]


def test_sync_in_other_states() -> None:
    bench = GroupBench()
    ids = bench.stable("a", "b")
    bench.join("a", ids["a"])
    assert bench.state == "PreparingRebalance"
    assert bench.sync("b", ids["b"], 1).error_code == Errors.REBALANCE_IN_PROGRESS
    bench.leave((ids["a"], None), (ids["b"], None))
    assert bench.state == "Empty"
    assert bench.sync("b", ids["b"], 2).error_code == Errors.UNKNOWN_MEMBER_ID


def test_who_may_send_heartbeats() -> None:
    bench = GroupBench()
    assert bench.heartbeat("a-1", 1) is Errors.UNKNOWN_MEMBER_ID
    ids = bench.stable("a", "b")
    assert bench.heartbeat(ids["a"], 1) is Errors.NONE
    assert bench.heartbeat(ids["a"], 0) is Errors.ILLEGAL_GENERATION
    assert bench.heartbeat("nobody", 1) is Errors.UNKNOWN_MEMBER_ID
    assert bench.heartbeat(ids["a"], 1, instance="i") is Errors.UNKNOWN_MEMBER_ID
    bench.join("a", ids["a"])
    assert bench.heartbeat(ids["b"], 1) is Errors.REBALANCE_IN_PROGRESS
    bench.join("b", ids["b"])
    assert bench.state == "CompletingRebalance"
    assert bench.heartbeat(ids["b"], 2) is Errors.NONE


def test_leaving_in_batches() -> None:
    bench = GroupBench()
    ids = bench.stable("a", "b")
    pending = bench.join("c").member_id
    answer = bench.leave(
        (ids["a"], None),
        (pending, None),
        ("nobody", None),
        ("", "no instance"),
        ("", None),
        (ids["b"], "no instance"),
    )
    assert answer == [
        Errors.NONE,
        Errors.NONE,
        Errors.UNKNOWN_MEMBER_ID,
        Errors.UNKNOWN_MEMBER_ID,
        Errors.UNKNOWN_MEMBER_ID,
        Errors.UNKNOWN_MEMBER_ID,
    ]
    assert bench.state == "PreparingRebalance"
    assert set(bench.group.members) == {ids["b"]}
    assert bench.leave((ids["b"], None), group="other") is Errors.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_while_others_wait_ends_the_join_phase() -> None:
    bench = GroupBench()
    ids = bench.stable("a", "b")
    assert bench.join("a", ids["a"]) is None
    bench.leave((ids["b"], None))
    assert bench.answers["a"].generation_id == 2
    assert bench.state == "CompletingRebalance"


def test_a_member_that_leaves_while_it_waits_is_told_so() -> None:
    bench = GroupBench()
    bench.join_new("a")
    bench.leave(("a-1", None))
    assert bench.answers["a"].error_code == Errors.UNKNOWN_MEMBER_ID


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    bench = GroupBench()
    bench.join("a", instance="i")
    bench.advance(3_000)
    bench.sync("a", "i-1", 1, {"i-1": b"A"}, instance="i")
    assert bench.leave(("", "i")) == [Errors.NONE]
    assert bench.state == "Empty"


def test_a_fenced_member_cannot_leave() -> None:
    bench = GroupBench()
    bench.join("a", instance="i")
    bench.advance(3_000)
    assert bench.leave(("someone", "i")) == [Errors.FENCED_INSTANCE_ID]


def test_everybody_who_waits_is_told_that_the_coordinator_moved() -> None:
    bench = GroupBench()
    bench.join_new("a")
    bench.lose_leadership()
    assert bench.answers["a"].error_code == Errors.NOT_COORDINATOR
    bench = GroupBench()
    bench.join_new("a")
    bench.join_new("b")
    bench.advance(6_000)
    bench.sync("b", "b-2", 1)
    bench.lose_leadership()
    assert bench.answers["b"].error_code == Errors.NOT_COORDINATOR


def test_a_stable_group_survives_a_restart() -> None:
    bench = GroupBench()
    ids = bench.stable("a", "b")
    bench.restart()
    assert bench.state == "Stable"
    assert bench.group.generation_id == 1
    assert bench.group.leader_id == ids["a"]
    assert bench.heartbeat(ids["b"], 1) is Errors.NONE
    assert bench.sync("b", ids["b"], 1).assignment == ids["b"].encode()
    assert bench.group.subscribed_topics == {"t"}
    bench.advance(9_999)
    assert bench.state == "Stable", "sessions begin anew"
    bench.advance(1)
    assert bench.state == "Empty", "nobody said anything"


def test_a_group_over_a_lowered_bound_rebalances_when_it_is_loaded() -> None:
    bench = GroupBench()
    ids = bench.stable("a", "b", "c")
    bench.settings = bench.settings._replace(classic_size_max=2)
    bench.restart()
    assert bench.state == "PreparingRebalance"
    bench.join("a", ids["a"])
    bench.join("b", ids["b"])
    assert bench.join("c", ids["c"]).error_code == Errors.GROUP_MAX_SIZE_REACHED
    assert set(bench.group.members) == {ids["a"], ids["b"]}


def test_a_new_group_whose_record_fails_is_gone() -> None:
    bench = GroupBench()
    bench.is_holding = True
    bench.join("a", version=3)
    assert bench.group is not None
    bench.fail(Errors.NOT_LEADER_OR_FOLLOWER)
    assert bench.group is None
    assert bench.answers["a"] is Errors.NOT_LEADER_OR_FOLLOWER
    bench.advance(400_000)
    assert bench.machine.groups.get(GROUP) is None
