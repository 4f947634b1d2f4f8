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
    assert lock.is_cancelled


def test_a_split_batch_keeps_its_lock() -> None:
    batch = InFlightBatch(3, 5, acquired())
    made: list[Lock] = []

    def new_lock(first: int, last: int, deadline_ms: int) -> Lock:
        made.append(Lock(first, last, deadline_ms))
        return made[-1]

    batch.split(new_lock)
    batch.split(new_lock)
    assert [(lock.first_offset, lock.deadline_ms) for lock in made] == [
        (3, 100),
        (4, 100),
        (5, 100),
    ]
    assert [first for first, _, _ in batch.states()] == [3, 4, 5]
    assert batch.is_within(3, 5)
    assert not batch.is_within(4, 5)
