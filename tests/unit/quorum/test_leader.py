from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa import limits
from kaa.quorum.election import ElectionState
from kaa.quorum.leader import Leader, ReplicaProgress
from kaa.quorum.voters import ReplicaKey, VoterNode, VoterSet
from tests.support.ids import uuid


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, uuid(node_id + 1))


def voters(*ids: int) -> VoterSet:
    return VoterSet.of(VoterNode(key(node_id)) for node_id in ids)


def leader(*ids: int, epoch_start_offset: int = 10) -> Leader:
    return Leader(5, epoch_start_offset, key(0), (), voters(*ids), 3000, 0)


def test_a_leader_tells_who_it_is_and_votes_for_nobody() -> None:
    one = leader(0, 1, 2)
    assert one.election == ElectionState(5, 0, None)
    assert not one.grants_vote(key(1), True, True)


def test_the_high_watermark_is_what_a_majority_has() -> None:
    one = leader(0, 1, 2)
    assert not one.local_written(15)
    assert one.replica_fetched(key(1), 12, 15, 0)
    assert one.high_watermark == 12
    assert one.replica_fetched(key(2), 14, 15, 0)
    assert one.high_watermark == 14


def test_records_of_older_epochs_do_not_count_alone() -> None:
    one = leader(0, 1, 2)
    one.local_written(10)
    assert not one.replica_fetched(key(1), 10, 10, 0)
    assert not one.replica_fetched(key(2), 10, 10, 0)
    assert one.high_watermark is None
    one.local_written(11)
    assert one.replica_fetched(key(1), 11, 11, 0)
    assert one.high_watermark == 11


def test_the_leaders_disk_is_not_needed_when_a_majority_of_others_has_it() -> None:
    one = leader(0, 1, 2)
    one.replica_fetched(key(1), 12, 15, 0)
    assert one.replica_fetched(key(2), 12, 15, 0)
    assert one.high_watermark == 12


def test_the_high_watermark_never_falls() -> None:
    one = leader(0, 1, 2)
    one.local_written(20)
    one.replica_fetched(key(1), 20, 20, 0)
    assert not one.replica_fetched(key(1), 5, 20, 0)
    assert one.high_watermark == 20
    assert not one.local_written(12)


@given(st.integers(1, 7), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 30)), max_size=40))
def test_the_high_watermark_is_that_of_a_naive_count(
    count: int, fetches: list[tuple[int, int]]
) -> None:
    one = leader(*range(count), epoch_start_offset=3)
    ends: dict[int, int] = {}
    best = 0
    for node_id, offset in fetches:
        if node_id == 0:
            ends[0] = max(offset, ends.get(0, 0))
            one.local_written(offset)
        elif node_id < count:
            ends[node_id] = offset
            one.replica_fetched(key(node_id), offset, 30, 0)
        reached = [
            offset
            for offset in range(4, 31)
            if sum(value >= offset for value in ends.values()) * 2 > count
        ]
        best = max([best, *reached])
        assert (one.high_watermark or 0) == best


def test_observers_are_remembered_and_do_not_count() -> None:
    one = leader(0, 1, 2)
    one.local_written(15)
    assert not one.replica_fetched(key(7), 15, 15, 0)
    assert one.high_watermark is None
    assert list(one.observers) == [key(7)]
    assert not one.replica_fetched(ReplicaKey(-1), 15, 15, 0)
    assert list(one.observers) == [key(7)]


def test_a_voter_with_another_disk_is_an_observer() -> None:
    one = leader(0, 1, 2)
    one.local_written(15)
    stranger = ReplicaKey(1, uuid(99))
    assert not one.replica_fetched(stranger, 15, 15, 0)
    assert one.high_watermark is None
    assert one.progress(stranger) is one.observers[stranger]


def test_silent_observers_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUORUM_OBSERVERS_MAX", 2)
    one = leader(0)
    for node_id in (7, 8, 9):
        one.replica_fetched(key(node_id), 1, 1, 0)
    assert list(one.observers) == [key(7), key(8)]
    one.replica_fetched(key(8), 1, 1, limits.QUORUM_OBSERVER_SESSION_MS - 1)
    one.replica_fetched(key(9), 1, 1, limits.QUORUM_OBSERVER_SESSION_MS)
    assert list(one.observers) == [key(8), key(9)]


def test_a_majority_must_be_heard() -> None:
    one = leader(0, 1, 2, 3, 4)
    one.voter_heard(key(1), 1000)
    one.voter_heard(key(1), 1500)
    one.voter_heard(key(9), 1500)
    assert one.check_quorum_deadline_ms == 3000
    one.voter_heard(key(2), 2000)
    assert one.check_quorum_deadline_ms == 5000


def test_a_leader_that_votes_no_more_needs_one_more() -> None:
    one = leader(0, 1, 2)
    one.set_voters(voters(1, 2, 3))
    one.voter_heard(key(1), 100)
    assert one.check_quorum_deadline_ms == 3000
    one.voter_heard(key(2), 100)
    assert one.check_quorum_deadline_ms == 3100


def test_who_is_told_again_that_there_is_a_leader() -> None:
    one = leader(0, 1, 2)
    assert one.silent_voters(0, 1000) == (key(1), key(2))
    one.replica_fetched(key(1), 0, 0, 500)
    assert one.silent_voters(1499, 1000) == (key(2),)
    assert one.silent_voters(1500, 1000) == (key(1), key(2))


def test_successors_are_those_with_the_longest_log() -> None:
    one = leader(0, 1, 2, 3)
    one.replica_fetched(key(3), 12, 15, 0)
    one.replica_fetched(key(2), 14, 15, 0)
    assert one.successors() == (key(2), key(3), key(1))


def test_a_new_voter_keeps_the_progress_that_it_had_as_observer() -> None:
    one = leader(0, 1)
    one.local_written(20)
    one.replica_fetched(key(1), 11, 20, 0)
    one.replica_fetched(key(2), 20, 20, 0)
    assert one.high_watermark == 11
    assert one.set_voters(voters(0, 1, 2))
    assert one.high_watermark == 20
    assert not one.observers
    one.set_voters(voters(0, 2))
    assert one.observers[key(1)].end_offset == 11


def test_a_voter_gets_to_know_its_directory() -> None:
    one = Leader(5, 10, key(0), (), VoterSet.of((VoterNode(ReplicaKey(0)),)), 3000, 0)
    one.local_written(12)
    one.set_voters(voters(0))
    assert one.voters[0].key == key(0)
    assert one.high_watermark == 12


def test_without_voters_nothing_is_committed() -> None:
    one = leader(0)
    one.set_voters(VoterSet())
    assert not one.local_written(20)


def test_when_a_replica_was_caught_up() -> None:
    progress = ReplicaProgress(key(1))
    times: list[int | None] = []
    # At 200 it has all that the leader had at 100.
    for fetch_offset, leader_end, now_ms in ((5, 10, 100), (10, 12, 200), (12, 12, 300)):
        progress.fetched(fetch_offset, leader_end, now_ms)
        times.append(progress.last_caught_up_ms)
    assert times == [None, 100, 300]
    progress.fetched(12, None, 400)
    assert (progress.last_fetch_ms, progress.last_caught_up_ms) == (400, 300)
