"""What a partition, or the metadata, has committed, as seen from outside.

Whatever lies below the high watermark of a leader is committed, and nobody may ever see anything
else there. So the first leader that shows a batch below its high watermark writes it down here, and
from then on every log is compared with it, batch by batch, as far as both go. That gives:

| Name | What may not happen |
|---|---|
| committed-changed | a log has another batch than the one that was committed |
| duplicate-batch | a producer's batch was committed twice (producer id, epoch, sequence) |
| sequence-gap | the batches of a producer were committed with something missing between them |
| last-stable-offset | it lies above the first offset of a transaction that is not ended |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.log.log import FetchIsolation
from kaa.records.batch import iter_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.log.log import UnifiedLog
    from kaa.records.batch import RecordBatch

_READ_BYTES = 1 << 20


class InvariantError(AssertionError):
    """An invariant does not hold; `name` is the one of the table."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


class Extent(NamedTuple):
    """A batch, as it is distinguished from all others."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int


def extent(batch: RecordBatch) -> Extent:
    return Extent(batch.base_offset, batch.next_offset, batch.partition_leader_epoch, batch.crc)


def log_batches(log: UnifiedLog, start: int, end: int) -> Iterator[RecordBatch]:
    """The batches of a log from one boundary between batches on."""
    offset = start
    while offset < end:
        found = log.read(offset, bytes_max=_READ_BYTES, isolation=FetchIsolation.LOG_END)
        if found.region is None:
            return
        try:
            content = found.region.read()
        finally:
            found.region.release()
        for batch in iter_batches(content):
            if batch.base_offset >= end:
                return
            yield batch
            offset = batch.next_offset


class Committed:
    """The committed batches of one log; see the module's text."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.end = 0
        self.batches: dict[int, Extent] = {}
        # By producer id: the epoch and the last sequence.
        self._sequences: dict[int, tuple[int, int]] = {}
        # By producer id: the first offset of the transaction that is not ended.
        self.open: dict[int, int] = {}

    def extend(self, batch: RecordBatch, who: str) -> None:
        """A leader shows a batch below its high watermark for the first time."""
        if batch.base_offset != self.end and self.batches:
            detail = f"{self.name}: {who} has {extent(batch)} after offset {self.end}"
            raise InvariantError("committed-changed", detail)
        self.batches[batch.base_offset] = extent(batch)
        self.end = batch.next_offset
        if batch.is_control:
            self.open.pop(batch.producer_id, None)
        elif batch.has_producer_id:
            self._note_producer(batch)

    def _note_producer(self, batch: RecordBatch) -> None:
        if batch.is_transactional:
            self.open.setdefault(batch.producer_id, batch.base_offset)
        if batch.base_sequence < 0:
            return
        epoch, last = self._sequences.get(batch.producer_id, (-1, -1))
        if batch.producer_epoch == epoch and batch.base_sequence != last + 1:
            name = "duplicate-batch" if batch.base_sequence <= last else "sequence-gap"
            raise InvariantError(name, f"{self.name}: {batch} after sequence {last}")
        if batch.producer_epoch < epoch:
            raise InvariantError("fenced-write", f"{self.name}: {batch} after epoch {epoch}")
        self._sequences[batch.producer_id] = (batch.producer_epoch, batch.last_sequence)

    def compare(self, batch: RecordBatch, who: str) -> None:
        known = self.batches.get(batch.base_offset)
        if known != extent(batch):
            detail = f"{self.name}: {who} has {extent(batch)}, committed was {known}"
            raise InvariantError("committed-changed", detail)

    def check_stable(self, last_stable_offset: int, who: str) -> None:
        for producer_id, first in self.open.items():
            if last_stable_offset > first:
                detail = (
                    f"{self.name}: {who} shows {last_stable_offset}, but {producer_id} is open"
                    f" since {first}"
                )
                raise InvariantError("last-stable-offset", detail)
