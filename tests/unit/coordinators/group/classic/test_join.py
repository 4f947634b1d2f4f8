"""JoinGroup: new, known and static members in every state of a group."""

from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from tests.unit.coordinators.group.bench import GroupBench


def test_old_clients_join_at_once() -> None:
    bench = GroupBench()
    assert bench.join("a", version=3) is None
    bench.advance(3_000)
    assert bench.answers["a"].member_id == "a-1"


def test_version_0_has_no_rebalance_timeout() -> None:
    bench = GroupBench()
    bench.join("a", version=0, session_ms=7_000, rebalance_ms=-1)
    assert bench.group.rebalance_timeout_ms == 7_000


def test_an_id_that_nobody_gave_out() -> None:
    bench = GroupBench()
    assert bench.join("a", "a-1").error_code == Errors.UNKNOWN_MEMBER_ID
    assert bench.group is None
    bench.stable("a")
    answer = bench.join("x", "nobody")
    assert (answer.error_code, answer.member_id) == (Errors.UNKNOWN_MEMBER_ID, "nobody")


def test_an_id_that_was_given_out_is_forgotten_after_the_session_timeout() -> None:
    bench = GroupBench()
    bench.join("a")
    bench.advance(10_000)
    assert bench.join("a", "a-1").error_code == Errors.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", ["range"]), ("consumer", [])])
def test_a_group_needs_a_protocol(protocol_type: str, protocols: list[str]) -> None:
    bench = GroupBench()
    answer = bench.join("a", protocol_type=protocol_type, protocols=protocols)
    assert answer.error_code == Errors.INCONSISTENT_GROUP_PROTOCOL


def test_members_must_share_type_and_a_protocol() -> None:
    bench = GroupBench()
    bench.stable("a", protocols=["range", "sticky"])
    for fields in ({"protocol_type": "connect"}, {"protocols": ["round"]}):
        answer = bench.join("b", **fields)
        assert answer.error_code == Errors.INCONSISTENT_GROUP_PROTOCOL
    assert bench.join("b", protocols=["round", "sticky"]).error_code == Errors.MEMBER_ID_REQUIRED


def test_the_protocol_that_most_prefer() -> None:
    bench = GroupBench()
    bench.join_new("a", protocols=["range", "sticky"])
    bench.join_new("b", protocols=["sticky", "range"])
    bench.join_new("c", protocols=["new", "sticky", "range"])
    bench.advance(9_000)
    assert bench.answers["a"].protocol_name == "sticky"


def test_other_protocol_types() -> None:
    bench = GroupBench()
    bench.join_new("w", protocol_type="connect", protocols=["sessioned"], metadata=b"\xff\xff?")
    bench.advance(3_000)
    assert bench.answers["w"].protocol_type == "connect"
    assert bench.group.subscribed_topics is None
    assert not bench.group.is_subscribed_to("t")


def test_a_subscription_that_cannot_be_read_counts_as_any_topic() -> None:
    bench = GroupBench()
    bench.join_new("a", metadata=b"\0\0\xff")
    bench.advance(3_000)
    assert bench.group.subscribed_topics is None
    assert bench.group.is_subscribed_to("whatever")


def test_a_follower_that_joins_a_stable_group_again_hears_what_is() -> None:
    bench = GroupBench()
    ids = bench.stable("a", "b")
    answer = bench.join("b", ids["b"])
    assert (answer.generation_id, answer.leader, answer.members) == (1, ids["a"], [])
    assert bench.state == "Stable"


def test_a_leader_that_joins_again_starts_a_rebalance() -> None:
    bench = GroupBench()
    ids = bench.stable("a", "b")
    assert bench.join("a", ids["a"]) is None
    assert bench.state == "PreparingRebalance"
    assert bench.join("b", ids["b"]).generation_id == 2
    assert len(bench.answers["a"].members) == 2


def test_new_metadata_starts_a_rebalance() -> None:
    bench = GroupBench()
    ids = bench.stable("a", "b")
    assert bench.join("b", ids["b"], topics=["t", "u"]) is None
    assert bench.state == "PreparingRebalance"
    bench.join("a", ids["a"])
    assert bench.group.subscribed_topics == {"t", "u"}


def test_joining_again_in_the_sync_phase() -> None:
    bench = GroupBench()
    bench.join_new("a")
    bench.join_new("b")
    bench.advance(6_000)
    again = bench.join("a", "a-1")
    assert (again.generation_id, len(again.members)) == (1, 2), "the answer was lost"
    assert bench.join("b", "b-2").members == []
    assert bench.join("b", "b-2", topics=["u"]) is None, "something else than before"
    assert bench.state == "PreparingRebalance"


def test_an_earlier_request_of_the_same_member_is_not_left_waiting() -> None:
    bench = GroupBench()
    ids = bench.stable("a", "b")
    bench.join("a", ids["a"])
    bench.join("a again", ids["a"])
    assert bench.answers["a"].error_code == Errors.REBALANCE_IN_PROGRESS
    bench.join("b", ids["b"])
    assert bench.answers["a again"].generation_id == 2


def test_a_full_group() -> None:
    bench = GroupBench(classic_size_max=2)
    ids = bench.stable("a", "b")
    answer = bench.join("c")
    assert (answer.error_code, answer.member_id) == (Errors.GROUP_MAX_SIZE_REACHED, "")
    assert bench.join("b", ids["b"]).error_code == Errors.NONE, "members are not refused"


def test_a_full_group_during_a_rebalance_counts_those_who_wait() -> None:
    bench = GroupBench(classic_size_max=2)
    bench.join_new("a")
    bench.join_new("b")
    assert bench.join("c").error_code == Errors.GROUP_MAX_SIZE_REACHED
    bench.join("a again", "a-1")
    assert bench.answers["a"].error_code == Errors.REBALANCE_IN_PROGRESS


def static(bench: GroupBench, *instances: str, **fields: int) -> dict[str, str]:
    for instance in instances:
        bench.join(instance, instance=instance, **fields)  # type: ignore[arg-type]
    bench.advance(bench.settings.initial_rebalance_delay_ms * 2)
    ids = {one: bench.answers[one].member_id for one in instances}
    for instance, member_id in ids.items():
        given = {one: one.encode() for one in ids.values()}
        is_leader = member_id == bench.group.leader_id
        bench.sync(instance, member_id, 1, given if is_leader else None, instance=instance)
    assert bench.state == "Stable"
    return ids


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    bench = GroupBench()
    ids = static(bench, "i", "j")
    bench.is_holding = True
    assert bench.join("j again", instance="j") is None
    bench.commit()
    answer = bench.answers["j again"]
    assert (answer.error_code, answer.generation_id, answer.leader) == (Errors.NONE, 1, ids["i"])
    assert answer.member_id not in ids.values()
    assert bench.state == "Stable"
    # It gets the assignment of the member whose place it took.
    synced = bench.sync("j again", answer.member_id, 1, instance="j")
    assert synced.assignment == ids["j"].encode()
    # The one before it is fenced.
    assert bench.heartbeat(ids["j"], 1, instance="j") is Errors.FENCED_INSTANCE_ID
    assert bench.sync("x", ids["j"], 1, instance="j").error_code == Errors.FENCED_INSTANCE_ID
    assert bench.join("x", ids["j"], instance="j").error_code == Errors.FENCED_INSTANCE_ID
    assert bench.commit_offset(member_id=ids["j"], generation=1, instance="j") is (
        Errors.FENCED_INSTANCE_ID
    )
    bench.restart()
    assert bench.group.static_members["j"] == answer.member_id


def test_a_static_leader_comes_back_and_keeps_the_assignment() -> None:
    bench = GroupBench()
    static(bench, "i", "j")
    answer = bench.join("i again", instance="i")
    assert answer.skip_assignment
    assert answer.leader == answer.member_id
    assert len(answer.members) == 2


def test_an_old_static_leader_must_not_assign_anew() -> None:
    bench = GroupBench()
    ids = static(bench, "i", "j")
    answer = bench.join("i again", instance="i", version=8)
    assert (answer.leader, answer.members, answer.skip_assignment) == (ids["i"], [], False)


def test_a_static_member_whose_new_id_cannot_be_stored() -> None:
    bench = GroupBench()
    ids = static(bench, "i", "j")
    bench.is_holding = True
    bench.join("j again", instance="j", topics=["t", "u"])
    bench.fail(Errors.NOT_ENOUGH_REPLICAS)
    answer = bench.answers["j again"]
    assert (answer.error_code, answer.member_id) == (Errors.COORDINATOR_NOT_AVAILABLE, "")
    assert bench.group.static_members["j"] == ids["j"]
    assert bench.heartbeat(ids["j"], 1, instance="j") is Errors.NONE
    assert bench.state == "Stable"
    assert bench.group.waiting_joins == 0


def test_a_static_member_with_another_protocol_starts_a_rebalance() -> None:
    bench = GroupBench()
    bench.join("i", instance="i", protocols=["range", "sticky"])
    bench.advance(3_000)
    bench.sync("i", "i-1", 1, {"i-1": b"A"}, instance="i")
    answer = bench.join("i again", instance="i", protocols=["sticky", "range"])
    assert (answer.generation_id, answer.protocol_name) == (2, "sticky")
    assert bench.state == "CompletingRebalance"


def test_a_static_member_that_comes_back_in_the_sync_phase() -> None:
    bench = GroupBench()
    bench.join("i", instance="i")
    bench.join("j", instance="j")
    bench.advance(6_000)
    bench.sync("j", "j-2", 1, instance="j")
    assert bench.join("j again", instance="j") is None
    assert bench.answers["j"].error_code == Errors.FENCED_INSTANCE_ID
    assert bench.state == "PreparingRebalance"


def test_a_static_member_that_comes_back_in_the_join_phase() -> None:
    bench = GroupBench()
    bench.join("i", instance="i")
    bench.join("i again", instance="i")
    assert bench.answers["i"].error_code == Errors.FENCED_INSTANCE_ID
    bench.advance(6_000)
    assert bench.answers["i again"].member_id == "i-2"
    assert list(bench.group.members) == ["i-2"]


def test_a_dead_group_takes_nobody() -> None:
    bench = GroupBench()
    bench.stable("a")
    bench.lose_leadership()
    assert bench.join("b").error_code == Errors.COORDINATOR_NOT_AVAILABLE
    assert bench.join("a", "a-1").error_code == Errors.COORDINATOR_NOT_AVAILABLE
    assert bench.sync("a", "a-1", 1).error_code == Errors.COORDINATOR_NOT_AVAILABLE
    assert bench.heartbeat("a-1", 1) is Errors.COORDINATOR_NOT_AVAILABLE
    assert bench.leave(("a-1", None)) is Errors.COORDINATOR_NOT_AVAILABLE
    assert bench.commit_offset() is Errors.COORDINATOR_NOT_AVAILABLE
