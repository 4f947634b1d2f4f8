"""From the bytes of a fetch answer to records: which batches count, and which records of them.

A batch may begin before the position (a broker hands out whole batches) and may be control records,
which no application sees. Under `read_committed` the answer names transactions that were aborted:
producer id and first offset. From there on, batches of that producer are passed over, until its
abort marker is met.
"""

from __future__ import annotations

from heapq import heapify, heappop
from typing import TYPE_CHECKING

from kaa.records.control import ControlRecordType, read_end_transaction_marker
from kaa.records.legacy import LegacyBatch, iter_any_batches, iter_legacy_records
from kaa.records.record import iter_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaa.records.batch import Buffer, RecordBatch
    from kaa.records.record import Record


class AbortedTransactions:
    """Tells, batch by batch in the order of the log, which belong to an aborted transaction."""

    __slots__ = ("_open", "_starts")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        """`aborted` has (first offset, producer id) in any order."""
        self._starts = list(aborted)
        heapify(self._starts)
        self._open: set[int] = set()

    def hides(self, batch: RecordBatch) -> bool:
        """Whether the batch belongs to an aborted transaction. Batches have to come in order."""
        while self._starts and self._starts[0][0] <= batch.last_offset:
            self._open.add(heappop(self._starts)[1])
        if not batch.is_transactional or batch.producer_id not in self._open:
            return False
        if batch.is_control:
            marker = read_end_transaction_marker(batch)
            if marker is not None and marker.control_type is ControlRecordType.ABORT:
                self._open.discard(batch.producer_id)
        return True


class FetchedRecords:
    """What one fetch brought of one partition, decoded batch by batch as it is asked for."""

    __slots__ = ("_aborted", "_batch", "_batches", "_checks_crcs", "next_offset", "rest")

    def __init__(
        self,
        data: Buffer,
        position: int,
        *,
        aborted: Iterable[tuple[int, int]] | None = None,
        checks_crcs: bool = True,
    ) -> None:
        self._batches: Iterator[RecordBatch | LegacyBatch] = iter_any_batches(data)
        # The batch at hand. One that cannot be read stays, so that nobody gets past it unawares.
        self._batch: RecordBatch | LegacyBatch | None = None
        self._aborted = None if aborted is None else AbortedTransactions(aborted)
        self._checks_crcs = checks_crcs
        # The position after what was handed out.
        self.next_offset = position
        # Records that were decoded and not handed out yet.
        self.rest: list[Record] = []

    def take(self, count_max: int) -> list[Record]:
        """The next records, at most so many; none means that there are no more."""
        records = self.rest
        while not records:
            batch = self._batch = self._batch or next(self._batches, None)
            if batch is None:
                return []
            records = self._decode(batch)
            self._batch = None
            if not records:
                self.next_offset = max(self.next_offset, batch.next_offset)
            elif len(records) <= count_max:
                # Offsets may be missing after the last record of a compacted batch.
                self.next_offset = batch.next_offset
                self.rest = []
                return records
        taken, self.rest = records[:count_max], records[count_max:]
        self.next_offset = taken[-1].offset + 1
        return taken

    def _decode(self, batch: RecordBatch | LegacyBatch) -> list[Record]:
        if batch.next_offset <= self.next_offset:
            return []
        if isinstance(batch, LegacyBatch):
            records = list(iter_legacy_records(batch))
        else:
            if self._checks_crcs:
                batch.ensure_valid()
            if self._aborted is not None and self._aborted.hides(batch):
                return []
            if batch.is_control:
                return []
            records = list(iter_records(batch))
        if records and records[0].offset < self.next_offset:
            records = [record for record in records if record.offset >= self.next_offset]
        return records


def next_fetch_offset(data: Buffer, position: int) -> int:
    """Where the fetch after this one starts; the position if no whole batch came."""
    offset = position
    for batch in iter_any_batches(data):
        offset = max(offset, batch.next_offset)
    return offset
