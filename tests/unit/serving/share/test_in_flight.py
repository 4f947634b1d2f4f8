from __future__ import annotations

import pytest

from kaa.serving.share.in_flight import InFlightBatch, InFlightState, Lock, RecordState

AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED


def acquired(count: int = 1) -> InFlightState:
    return InFlightState(ACQUIRED, count, "m", Lock(0, 0, 100))


def test_a_failed_write_takes_the_transition_back() -> None:
    state = acquired()
    assert state.begin(RecordState.ACKNOWLEDGED, 5)
    assert state.is_ongoing
    assert not state.change(AVAILABLE, 5)
    state.finish(is_written=False)
    assert (state.state, state.member_id, state.is_ongoing) == (ACQUIRED, "m", False)
    assert state.lock is not None


@pytest.mark.parametrize(("count", "after"), [(1, AVAILABLE), (5, RecordState.ARCHIVED)])
def test_a_lock_that_ran_out_meanwhile_counts(count: int, after: RecordState) -> None:
    state = acquired(count)
    assert state.begin(RecordState.ACKNOWLEDGED, 5)
    assert state.lock is not None
    state.lock.has_expired = True
    state.finish(is_written=False)
    assert (state.state, state.member_id) == (after, "")
    assert getattr(state, "lock", None) is None


def test_the_last_delivery_is_not_given_back() -> None:
    state = acquired(5)
    assert state.change(AVAILABLE, 5)
    assert state.state is RecordState.ARCHIVED
    assert not state.change(ACQUIRED, 5)


def test_what_the_log_lost_stays_lost() -> None:
    state = acquired()
    lock = state.lock
    assert state.begin(AVAILABLE, 5)
    state.archive()
    state.finish(is_written=False)
    assert state.state is RecordState.ARCHIVED
    assert lock is not None
    assert lock.holders == 0


def test_a_split_batch_keeps_its_lock() -> None:
    batch = InFlightBatch(3, 5, acquired())
    lock = batch.whole.lock if batch.whole else None
    batch.split()
    batch.split()
    assert lock is not None
    assert lock.holders == 3
    assert [(first, state.lock) for first, _, state in batch.states()] == [
        (3, lock),
        (4, lock),
        (5, lock),
    ]
    assert [first for first, _, _ in batch.states(4)] == [4, 5]
    assert [first for first, _, _ in batch.states(0, 4)] == [3, 4]
    assert batch.state_at(6) is None
    for _, _, state in batch.states():
        state.unlock()
    assert lock.holders == 0
    assert batch.is_within(3, 5)
    assert not batch.is_within(4, 5)


def test_a_new_batch_is_acquired_in_part() -> None:
    batch = InFlightBatch(3, 5, acquired())
    batch.split_at(4)
    found = [(state.state, state.delivery_count, state.lock) for _, _, state in batch.states()]
    lock = found[0][2]
    assert lock is not None
    assert lock.holders == 2
    assert found == [(ACQUIRED, 1, lock), (ACQUIRED, 1, lock), (AVAILABLE, 0, None)]
