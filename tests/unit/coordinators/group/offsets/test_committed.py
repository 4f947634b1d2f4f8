"""Committed offsets: commits, expiry, deletion, transactions."""

from __future__ import annotations

import pytest

from kaa.coordinators.group.offsets.committed import CommittedOffset, offset_record
from kaa.coordinators.group.offsets.expiry import expired_offsets
from kaa.coordinators.group.offsets.fetch import fetch_offsets
from kaa.coordinators.machine import NewRecord
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequestGroup
from kaa.wire.messages.offsets_classic import OffsetCommitKey, OffsetCommitValue
from kaa.wire.primitives import UUID_ZERO, Uuid
from tests.unit.coordinators.group.bench import GROUP, START_WALL_MS, GroupBench, fetched

RETENTION_MS = 1_000_000
INTERVAL_MS = 1_000


def offsets(bench: GroupBench, group: str = GROUP, *, is_stable: bool = False) -> dict[str, int]:
    request = OffsetFetchRequestGroup(group_id=group, topics=None)
    found = finish(fetch_offsets(bench.machine, request, fetched, is_stable=is_stable))
    return {f"{topic.name}-{one.number}": one.offset for topic in found for one in topic.partitions}


def expiring() -> GroupBench:
    return GroupBench(
        offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=INTERVAL_MS
    )


@pytest.mark.parametrize("topic_id", [UUID_ZERO, Uuid(range(16))])
@pytest.mark.parametrize("metadata", ["", "note", "n\u00f6te" * 100])
@pytest.mark.parametrize("expire_ms", [-1, 99])
def test_a_record_has_the_bytes_of_its_messages(
    topic_id: Uuid, metadata: str, expire_ms: int
) -> None:
    committed = CommittedOffset(2**40, -1, metadata, 1_700_000_000_000, expire_ms, topic_id)
    record = offset_record("gr\u00fcn", "topic", 2**31 - 1, committed)
    assert record.encode() == NewRecord(record.key, record.value, record.value_version).encode()


def test_a_simple_group_commits_without_members() -> None:
    bench = GroupBench()
    assert bench.commit_offset("t", 0, 5) is Errors.NONE
    assert bench.commit_offset("t", 1, 6, metadata="note") is Errors.NONE
    assert offsets(bench) == {"t-0": 5, "t-1": 6}
    assert (bench.state, bench.group.protocol_type) == ("Empty", None)
    bench.restart()
    assert offsets(bench) == {"t-0": 5, "t-1": 6}
    assert bench.machine.offsets.of_group(GROUP)["t", 1].metadata == "note"  # type: ignore[index]


def test_commits_are_seen_when_they_are_committed() -> None:
    bench = GroupBench()
    bench.commit_offset("t", 0, 5)
    bench.is_holding = True
    assert bench.commit_offset("t", 0, 6) is None
    assert offsets(bench) == {"t-0": 5}
    assert offsets(bench, is_stable=True) == {"t-0": 6}
    bench.fail()
    assert bench.answers["commit"] is Errors.NOT_ENOUGH_REPLICAS
    assert offsets(bench) == offsets(bench, is_stable=True) == {"t-0": 5}


def test_a_group_that_was_not_committed_is_gone_after_a_failure() -> None:
    bench = GroupBench()
    bench.is_holding = True
    bench.commit_offset("t", 0, 6)
    assert offsets(bench) == {}
    bench.fail()
    assert bench.group is None


def test_a_generation_without_a_group() -> None:
    bench = GroupBench()
    assert bench.commit_offset(generation=1) is Errors.ILLEGAL_GENERATION
    assert bench.commit_offset(generation=1, version=9) is Errors.GROUP_ID_NOT_FOUND


def test_who_may_commit_in_which_state() -> None:
    bench = GroupBench()
    ids = bench.stable("a", "b")
    assert bench.commit_offset(member_id=ids["a"], generation=1) is Errors.NONE
    assert bench.commit_offset(member_id=ids["a"], generation=0) is Errors.ILLEGAL_GENERATION
    assert bench.commit_offset(member_id="nobody", generation=1) is Errors.UNKNOWN_MEMBER_ID
    assert bench.commit_offset() is Errors.UNKNOWN_MEMBER_ID, "the group has members"
    assert bench.commit_offset(instance="i") is Errors.UNKNOWN_MEMBER_ID
    bench.join("a", ids["a"])
    assert bench.commit_offset(member_id=ids["b"], generation=1) is Errors.NONE
    bench.join("b", ids["b"])
    assert bench.state == "CompletingRebalance"
    assert bench.commit_offset(member_id=ids["b"], generation=2) is Errors.REBALANCE_IN_PROGRESS
    bench.leave((ids["a"], None), (ids["b"], None))
    bench.advance(60_000)
    assert bench.commit_offset(generation=-1) is Errors.NONE


def test_a_commit_is_a_sign_of_life() -> None:
    bench = GroupBench()
    ids = bench.stable("a")
    bench.advance(9_000)
    bench.commit_offset(member_id=ids["a"], generation=1)
    bench.advance(9_000)
    assert bench.state == "Stable"


def test_long_metadata_is_refused_and_the_rest_is_stored() -> None:
    bench = GroupBench(offset_metadata_bytes_max=4)
    assert bench.commit_offset(metadata="12345") is Errors.OFFSET_METADATA_TOO_LARGE
    assert bench.commit_offset(metadata="1234") is Errors.NONE
    assert bench.log[0].value is not None
    assert len(bench.log) == 1


def test_versions_of_the_record() -> None:
    plain = CommittedOffset(1, 2, "m", 3)
    assert offset_record("g", "t", 0, plain).encode()[1][:2] == b"\0\4"
    own_time = plain._replace(expire_timestamp_ms=9)
    assert offset_record("g", "t", 0, own_time).encode()[1][:2] == b"\0\1"


# --- expiry


def test_offsets_of_a_simple_group_expire_after_their_commit() -> None:
    bench = expiring()
    bench.commit_offset("t", 0)
    bench.advance(RETENTION_MS // 2)
    bench.commit_offset("t", 1)
    bench.advance(RETENTION_MS // 2)
    assert offsets(bench) == {"t-1": 1}
    bench.advance(RETENTION_MS // 2)
    assert bench.group is None, "the group goes with its last offset"
    assert bench.machine.offsets.of_group(GROUP) is not None
    bench.advance(INTERVAL_MS)
    assert bench.machine.offsets.of_group(GROUP) is None
    bench.restart()
    assert bench.group is None


def test_offsets_of_a_group_expire_after_its_last_member_left() -> None:
    bench = expiring()
    ids = bench.stable("a", session_ms=1_800_000)
    bench.commit_offset("t", 0, member_id=ids["a"], generation=1)
    bench.advance(RETENTION_MS - INTERVAL_MS)
    bench.heartbeat(ids["a"], 1)
    bench.leave((ids["a"], None))
    bench.advance(RETENTION_MS - INTERVAL_MS)
    assert offsets(bench) == {"t-0": 1}
    bench.advance(INTERVAL_MS * 2)
    assert bench.group is None


def test_offsets_of_topics_that_are_not_read_any_more_expire() -> None:
    bench = expiring()
    ids = bench.stable("a", session_ms=1_800_000)
    for topic in ("t", "u"):
        bench.commit_offset(topic, member_id=ids["a"], generation=1)
    bench.advance(RETENTION_MS)
    assert offsets(bench) == {"t-0": 1}
    assert bench.state == "Stable"


def test_nothing_expires_during_a_rebalance_or_with_other_protocols() -> None:
    bench = expiring()
    fields = {"session_ms": 1_800_000, "rebalance_ms": 1_800_000}
    ids = bench.stable("a", "b", **fields)
    bench.commit_offset("u", member_id=ids["a"], generation=1)
    bench.join("a", ids["a"], **fields)  # type: ignore[arg-type]
    bench.advance(RETENTION_MS)
    assert offsets(bench) == {"u-0": 1}


def test_a_retention_of_its_own() -> None:
    bench = expiring()
    bench.commit_offset("t", 0, retention_ms=5_000)
    bench.advance(4_000)
    assert offsets(bench) == {"t-0": 1}
    bench.advance(1_000)
    assert offsets(bench) == {}


def test_an_empty_group_without_offsets_goes_at_the_next_look() -> None:
    bench = expiring()
    ids = bench.stable("a")
    bench.leave((ids["a"], None))
    assert bench.state == "Empty"
    bench.advance(INTERVAL_MS)
    assert bench.group is None


def test_offsets_of_deleted_topics_go() -> None:
    bench = GroupBench()
    bench.commit_offset("t")
    bench.commit_offset("u", group="h")
    bench.commit_offset("t", group="h")
    bench.run("gone", lambda machine, _: machine.topics_deleted(["t"]))
    assert offsets(bench) == {}
    assert offsets(bench, "h") == {"u-0": 1}


# --- transactions


def replay(bench: GroupBench, partition: int, offset: int, at: int, producer_id: int) -> None:
    key = OffsetCommitKey(group=GROUP, topic="t", partition=partition)
    value = OffsetCommitValue(offset=offset, commit_timestamp=START_WALL_MS)
    bench.machine.timeline.commit(100)
    bench.machine.replay(at, key, value, producer_id, 0)


def test_offsets_of_a_transaction_count_when_it_commits() -> None:
    bench = GroupBench()
    replay(bench, 0, 5, 0, -1)
    replay(bench, 0, 9, 1, 77)
    replay(bench, 1, 3, 2, 77)
    assert offsets(bench) == {"t-0": 5}
    assert offsets(bench, is_stable=True) == {"t-0": -1}, "not stable"
    assert list(bench.machine.replay_end_transaction(77, is_commit=True)) == []
    assert offsets(bench) == offsets(bench, is_stable=True) == {"t-0": 9, "t-1": 3}


def test_offsets_of_an_aborted_transaction_do_not() -> None:
    bench = GroupBench()
    replay(bench, 0, 9, 1, 77)
    assert list(bench.machine.replay_end_transaction(77, is_commit=False)) == []
    assert list(bench.machine.replay_end_transaction(78, is_commit=True)) == []
    assert offsets(bench) == {}


def test_a_later_commit_wins_over_a_transaction() -> None:
    bench = GroupBench()
    replay(bench, 0, 9, 1, 77)
    replay(bench, 0, 6, 2, -1)
    assert list(bench.machine.replay_end_transaction(77, is_commit=True)) == []
    assert offsets(bench) == {"t-0": 6}


def test_offsets_of_a_deleted_topic_do_not_come_back_with_the_transaction() -> None:
    """A topic of that name may be there again before the transaction commits."""
    bench = GroupBench()
    bench.commit_offset("kept", 0, 1)
    record = offset_record(GROUP, "t", 0, CommittedOffset(5, -1, "", 0))
    other = offset_record(GROUP, "kept", 0, CommittedOffset(2, -1, "", 0))
    for offset, one in enumerate((record, other)):
        bench.machine.replay(100 + offset, one.key, one.value, 7, 0)
    bench.run("gone", lambda machine, _: machine.topics_deleted(["t"]))
    assert list(bench.machine.offsets.replay_end_transaction(7, is_commit=True)) == []
    assert offsets(bench, is_stable=True) == {"kept-0": 2}


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_tombstone_takes_pending_offsets_too(is_commit: bool) -> None:
    bench = GroupBench()
    replay(bench, 0, 9, 1, 77)
    key = OffsetCommitKey(group=GROUP, topic="t", partition=0)
    bench.machine.replay(2, key, None, -1, -1)
    assert list(bench.machine.replay_end_transaction(77, is_commit=is_commit)) == []
    assert offsets(bench) == {}


def test_a_group_with_an_open_transaction_does_not_expire() -> None:
    bench = expiring()
    bench.commit_offset("t", 0)
    replay(bench, 0, 9, 50, 77)
    bench.machine.timeline.move(100)
    retained = finish(expired_offsets(bench.group, bench.machine.offsets, 2**60, RETENTION_MS))
    assert retained == ([], False)
