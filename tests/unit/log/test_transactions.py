"""Transactions seen while a log is read in order."""

from __future__ import annotations

from kaa.log.sim_files import SimFiles
from kaa.log.transaction_index import AbortedTransaction, TransactionIndex
from kaa.log.transactions import CleanedTransactions
from kaa.records.batch import RecordBatch
from kaa.records.compaction import empty_batch
from tests.unit.log.batches import ABORT, COMMIT, batch, marker

ABORTED = AbortedTransaction(7, 10, 14, 15)


def _data(offset: int, producer_id: int = 7, *, transactional: bool = True) -> RecordBatch:
    content = batch(
        1,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=transactional,
    )
    return RecordBatch(content)


def _marker(kind: int, offset: int, producer_id: int = 7) -> RecordBatch:
    return RecordBatch(marker(kind, producer_id, 0, base_offset=offset))


def test_only_batches_between_first_offset_and_marker_are_aborted() -> None:
    transactions = CleanedTransactions()
    transactions.add([ABORTED])
    assert not transactions.take(_data(5))
    assert not transactions.take(_marker(COMMIT, 6))
    assert transactions.take(_data(10))
    assert not transactions.take(_data(11, 8))
    assert not transactions.take(_data(12, transactional=False))
    assert transactions.take(_data(13))
    assert not transactions.take(_marker(ABORT, 14)), "a batch of it was met"
    assert not transactions.take(_data(15))


def test_markers_without_a_batch_are_of_no_use() -> None:
    transactions = CleanedTransactions()
    transactions.add([ABORTED])
    assert transactions.take(_marker(COMMIT, 5))
    assert transactions.take(_marker(ABORT, 14))
    assert transactions.take(RecordBatch(empty_batch(_marker(COMMIT, 16))))


def test_the_same_abort_may_be_told_twice() -> None:
    transactions = CleanedTransactions()
    transactions.add([ABORTED])
    assert transactions.take(_data(10))
    transactions.add([ABORTED])
    assert transactions.take(_data(13))
    assert not transactions.take(_marker(ABORT, 14))


def test_the_new_index_gets_aborts_that_still_have_a_batch() -> None:
    files = SimFiles()
    files.make_directory("/d")
    transactions = CleanedTransactions()
    transactions.index = TransactionIndex(files, "/d/x", 0)
    transactions.add([ABORTED, AbortedTransaction(8, 12, 20, 21)])
    transactions.take(_data(10))
    transactions.take(_marker(ABORT, 14))
    transactions.take(_marker(ABORT, 20, 8))
    assert transactions.index.entries == [ABORTED]


def test_other_control_records_are_kept() -> None:
    assert not CleanedTransactions().take(_marker(2, 5))
