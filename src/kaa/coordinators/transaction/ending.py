"""Who may end a transaction when.

Before transaction version 2 the epoch has to be the current one. With version 2 every end raises
the epoch, so that a retry comes with the epoch before:

| state | abort, retried | abort | commit, retried | commit |
|---|---|---|---|---|
| Empty | fenced | `abort*` | fenced | invalid |
| CompleteAbort | done | `abort*` | invalid | invalid |
| CompleteCommit | invalid | `abort*` | done | invalid |

`abort*` aborts nothing but raises the epoch: the client cannot know whether its first record was
written. While markers are being written the answer is CONCURRENT_TRANSACTIONS: a client of version
2 may already be in its next transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.transaction.state import (
    DECIDED,
    EPOCH_BUMP_VERSION,
    EPOCH_MAX,
    TransactionState,
)
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from kaa.coordinators.transaction.state import Transaction


def is_id_needed(transaction: Transaction, version: int) -> bool:
    """Whether the raise of the epoch at the end of the transaction needs another producer id."""
    return version >= EPOCH_BUMP_VERSION and transaction.client_identity[1] >= EPOCH_MAX - 1


def end_verdict(
    transaction: Transaction,
    producer_id: int,
    producer_epoch: int,
    *,
    is_commit: bool,
    version: int,
) -> bool:
    """True if the transaction is to be ended, False if that was done. CoordinatorError refuses."""
    if version >= EPOCH_BUMP_VERSION:
        return _verdict(transaction, producer_id, producer_epoch, is_commit=is_commit)
    if transaction.client_identity[0] != producer_id:
        raise CoordinatorError(Errors.INVALID_PRODUCER_ID_MAPPING)
    if transaction.client_identity[1] != producer_epoch:
        raise CoordinatorError(Errors.PRODUCER_FENCED)
    if transaction.state in DECIDED:
        raise CoordinatorError(Errors.CONCURRENT_TRANSACTIONS)
    if transaction.state is TransactionState.ONGOING:
        return True
    return _retried(transaction, is_commit=is_commit)


def _verdict(
    transaction: Transaction, producer_id: int, producer_epoch: int, *, is_commit: bool
) -> bool:
    state = transaction.state
    if state in DECIDED:
        raise CoordinatorError(Errors.CONCURRENT_TRANSACTIONS)
    known_id, known_epoch = transaction.client_identity
    is_overflow = (
        transaction.previous_producer_id == producer_id
        and producer_epoch == EPOCH_MAX - 1
        and known_epoch == 0
    )
    is_retry = known_epoch == producer_epoch + 1
    if known_id != producer_id and not is_overflow:
        raise CoordinatorError(Errors.INVALID_PRODUCER_ID_MAPPING)
    if state in {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}:
        is_retry = is_retry or is_overflow
        is_valid = is_retry or producer_epoch == known_epoch
    else:
        is_retry = False
        is_valid = producer_epoch == known_epoch
    if not is_valid:
        raise CoordinatorError(Errors.PRODUCER_FENCED)
    if is_retry:
        return _retried(transaction, is_commit=is_commit)
    if state is not TransactionState.ONGOING and is_commit:
        raise CoordinatorError(Errors.INVALID_TXN_STATE)
    return True


def _retried(transaction: Transaction, *, is_commit: bool) -> bool:
    """The verdict on a wish that may have been fulfilled before."""
    if transaction.state is not (
        TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    ):
        raise CoordinatorError(Errors.INVALID_TXN_STATE)
    return False
