from __future__ import annotations

import pytest

from kaa.coordinators.transaction.state import (
    BEFORE,
    EPOCH_MAX,
    NO_TIMEOUT_MS,
    IllegalTransactionStateError,
    Transaction,
    TransactionState,
)


def transaction(
    state: TransactionState = TransactionState.ONGOING, epoch: int = 3, **fields: object
) -> Transaction:
    found = Transaction(7, epoch, 1_000, state, frozenset({("p", 0)}), 10, 20)
    return found._replace(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", list(TransactionState))
@pytest.mark.parametrize("to", list(TransactionState))
def test_only_what_the_table_has_happens(state: TransactionState, to: TransactionState) -> None:
    if state in BEFORE.get(to, ()):
        moved = transaction(state).moved(to)
        assert (moved.state, moved.previous_producer_id) == (to, 7)
    else:
        with pytest.raises(IllegalTransactionStateError):
            transaction(state).moved(to)


def test_titles_are_those_of_tools() -> None:
    assert [state.title for state in TransactionState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


def test_a_transaction_begins_with_its_first_partition() -> None:
    rested = transaction(TransactionState.COMPLETE_COMMIT, partitions=frozenset())
    begun = rested.with_partitions(frozenset({("p", 1)}), 50, 2)
    assert (begun.state, begun.start_timestamp_ms, begun.update_timestamp_ms) == (
        TransactionState.ONGOING,
        50,
        50,
    )
    more = begun.with_partitions(frozenset({("p", 2)}), 60, 2)
    assert (more.start_timestamp_ms, more.update_timestamp_ms) == (50, 60)
    assert more.partitions == {("p", 1), ("p", 2)}


@pytest.mark.parametrize(("version", "epoch", "last"), [(0, 3, -1), (1, 3, -1), (2, 4, 3)])
def test_an_end_raises_the_epoch_from_version_2_on(version: int, epoch: int, last: int) -> None:
    decided = transaction().decided(is_commit=True, version=version, new_producer_id=-1, now_ms=99)
    assert (decided.producer_epoch, decided.last_producer_epoch) == (epoch, last)
    assert (decided.state, decided.start_timestamp_ms) == (TransactionState.PREPARE_COMMIT, 10)
    assert decided.partitions == {("p", 0)}
    complete = decided.completed(100)
    assert (complete.state, complete.producer_epoch) == (TransactionState.COMPLETE_COMMIT, epoch)
    assert complete.partitions == frozenset()


@pytest.mark.parametrize("version", [0, 2])
def test_to_fence_raises_the_epoch_once(version: int) -> None:
    fenced = transaction().fenced(version=version, new_producer_id=-1, now_ms=99)
    assert (fenced.state, fenced.producer_epoch) == (TransactionState.PREPARE_ABORT, 4)


def test_the_last_epoch_is_for_the_last_marker() -> None:
    last = transaction(epoch=EPOCH_MAX - 1)
    assert last.is_epoch_exhausted
    decided = last.decided(is_commit=True, version=2, new_producer_id=8, now_ms=99)
    assert (decided.producer_id, decided.producer_epoch) == (7, EPOCH_MAX)
    complete = decided.completed(100)
    assert (complete.producer_id, complete.producer_epoch) == (8, 0)
    assert complete.previous_producer_id == 7


def test_a_transaction_is_taken_over() -> None:
    prepared = transaction(timeout_ms=NO_TIMEOUT_MS)
    assert prepared.is_two_phase
    taken = prepared.taken_over(7, 4, 50)
    assert (taken.producer_epoch, taken.client_identity) == (3, (7, 4))
    again = taken.taken_over(7, 5, 60)
    assert again.client_identity == (7, 5)
    decided = again.decided(is_commit=True, version=2, new_producer_id=-1, now_ms=70)
    assert (decided.producer_epoch, decided.client_identity) == (6, (7, 6))
    assert decided.completed(80).client_identity == (7, 6)


def test_a_transaction_is_taken_over_by_another_id() -> None:
    taken = transaction(epoch=EPOCH_MAX - 2).taken_over(8, 0, 50)
    assert taken.client_identity == (8, 0)
    decided = taken.decided(is_commit=False, version=2, new_producer_id=-1, now_ms=70)
    # Markers have the id of the records.
    assert (decided.producer_id, decided.producer_epoch) == (7, EPOCH_MAX - 1)
    assert decided.completed(80).client_identity == (8, 1)
