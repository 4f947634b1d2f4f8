"""Which batches belong to aborted transactions, found while a log is read from its start on.

Compaction reads batches in order and has to know of each whether its transaction was aborted. The
aborted transactions of the range, from the transaction indexes, are put in order of their first
offsets; one is open from there until its marker. For the copy the index of the new segment is
filled on the way: an abort is still worth an entry as long as a batch of it was met.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from kaa.records.control import ControlRecordType, decode_control_key
from kaa.records.record import iter_records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.log.transaction_index import AbortedTransaction, TransactionIndex
    from kaa.records.batch import RecordBatch


class CleanedTransactions:
    """The transactions that are open at the place where the reading is."""

    def __init__(self) -> None:
        # Gets the aborts of which a batch was met.
        self.index: TransactionIndex | None = None
        # By first offset; a heap.
        self._coming: list[tuple[int, AbortedTransaction]] = []
        # Producer id to its open, to be aborted transaction, and whether a batch of it was met.
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        # Producer ids with an open transaction that will be committed.
        self._committed: set[int] = set()

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        for transaction in aborted:
            heappush(self._coming, (transaction.first_offset, transaction))

    def take(self, batch: RecordBatch) -> bool:
        """Goes past a batch; whether nobody needs it for its transaction any more.

        For records that is so if they were aborted, for a marker if no record of its transaction
        was met.
        """
        while self._coming and self._coming[0][0] <= batch.last_offset:
            transaction = heappop(self._coming)[1]
            self._aborted.setdefault(transaction.producer_id, (transaction, False))
        if batch.is_control:
            return self._take_marker(batch)
        if not batch.is_transactional:
            return False
        found = self._aborted.get(batch.producer_id)
        if found is None:
            self._committed.add(batch.producer_id)
            return False
        self._aborted[batch.producer_id] = (found[0], True)
        return True

    def _take_marker(self, batch: RecordBatch) -> bool:
        record = next(iter_records(batch), None)
        if record is None:
            return True
        control_type = decode_control_key(record.key)
        if control_type is ControlRecordType.ABORT:
            transaction, was_met = self._aborted.pop(batch.producer_id, (None, False))
            if transaction is None or not was_met:
                return True
            if self.index is not None:
                self.index.append(transaction)
            return False
        if control_type is ControlRecordType.COMMIT:
            if batch.producer_id in self._committed:
                self._committed.remove(batch.producer_id)
                return False
            return True
        return False
