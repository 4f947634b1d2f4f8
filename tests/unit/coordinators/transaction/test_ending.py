"""The table of `ending`, each cell for a retry and for the current epoch."""

from __future__ import annotations

import pytest

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.transaction.ending import end_verdict, is_id_needed
from kaa.coordinators.transaction.state import DECIDED, EPOCH_MAX, Transaction, TransactionState
from kaa.wire.errors import Errors

EPOCH = 5
FENCED, INVALID = Errors.PRODUCER_FENCED, Errors.INVALID_TXN_STATE
BUSY = Errors.CONCURRENT_TRANSACTIONS


def verdict(
    state: TransactionState, epoch: int, *, is_commit: bool, version: int, **fields: int
) -> bool | Errors:
    transaction = Transaction(7, EPOCH, 1_000, state)._replace(**fields)  # type: ignore[arg-type]
    try:
        return end_verdict(
            transaction, fields.get("asked", 7), epoch, is_commit=is_commit, version=version
        )
    except CoordinatorError as refusal:
        return refusal.error


@pytest.mark.parametrize(
    ("state", "abort_retry", "abort_now", "commit_retry", "commit_now"),
    [
        (TransactionState.EMPTY, FENCED, True, FENCED, INVALID),
        (TransactionState.ONGOING, FENCED, True, FENCED, True),
        (TransactionState.PREPARE_ABORT, BUSY, BUSY, BUSY, BUSY),
        (TransactionState.PREPARE_COMMIT, BUSY, BUSY, BUSY, BUSY),
        (TransactionState.COMPLETE_ABORT, False, True, INVALID, INVALID),
        (TransactionState.COMPLETE_COMMIT, INVALID, True, False, INVALID),
    ],
)
def test_version_2(
    state: TransactionState,
    abort_retry: bool | Errors,
    abort_now: bool | Errors,
    commit_retry: bool | Errors,
    commit_now: bool | Errors,
) -> None:
    found = [
        verdict(state, epoch, is_commit=is_commit, version=2)
        for is_commit in (False, True)
        for epoch in (EPOCH - 1, EPOCH)
    ]
    assert found == [abort_retry, abort_now, commit_retry, commit_now]
    for epoch in (EPOCH - 2, EPOCH + 1):
        refused = BUSY if state in DECIDED else FENCED
        assert verdict(state, epoch, is_commit=True, version=2) is refused


@pytest.mark.parametrize(
    ("state", "abort", "commit"),
    [
        (TransactionState.EMPTY, INVALID, INVALID),
        (TransactionState.ONGOING, True, True),
        (TransactionState.PREPARE_ABORT, BUSY, BUSY),
        (TransactionState.PREPARE_COMMIT, BUSY, BUSY),
        (TransactionState.COMPLETE_ABORT, False, INVALID),
        (TransactionState.COMPLETE_COMMIT, INVALID, False),
    ],
)
def test_versions_before(
    state: TransactionState, abort: bool | Errors, commit: bool | Errors
) -> None:
    assert verdict(state, EPOCH, is_commit=False, version=0) == abort
    assert verdict(state, EPOCH, is_commit=True, version=0) == commit
    for epoch in (EPOCH - 1, EPOCH + 1):
        assert verdict(state, epoch, is_commit=True, version=0) is FENCED


def test_a_retry_after_the_id_has_changed() -> None:
    known = Transaction(8, 0, 1_000, TransactionState.COMPLETE_COMMIT, previous_producer_id=7)
    assert end_verdict(known, 7, EPOCH_MAX - 1, is_commit=True, version=2) is False
    with pytest.raises(CoordinatorError) as refused:
        end_verdict(known, 7, EPOCH_MAX - 2, is_commit=True, version=2)
    assert refused.value.error is Errors.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("version", [0, 2])
def test_another_producer(version: int) -> None:
    known = Transaction(8, EPOCH, 1_000, TransactionState.ONGOING)
    with pytest.raises(CoordinatorError) as refused:
        end_verdict(known, 7, EPOCH, is_commit=True, version=version)
    assert refused.value.error is Errors.INVALID_PRODUCER_ID_MAPPING


def test_when_another_id_is_needed() -> None:
    exhausted = Transaction(8, EPOCH_MAX - 1, 1_000, TransactionState.ONGOING)
    assert is_id_needed(exhausted, 2)
    assert not is_id_needed(exhausted, 1)
    assert not is_id_needed(exhausted._replace(producer_epoch=EPOCH_MAX - 2), 2)
    assert is_id_needed(exhausted._replace(producer_epoch=3, next_producer_epoch=EPOCH_MAX - 1), 2)
