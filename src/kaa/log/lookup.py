"""Offsets by timestamp, as ListOffsets asks for them.

Negative timestamps are questions of their own; any other asks for the first record at or after it.
The time index leads to a batch, since its entries hold the greatest timestamp so far; inside the
batch the records are looked at one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.model.topics import NO_TIMESTAMP
from kaa.records.legacy import LegacyBatch, iter_legacy_records
from kaa.records.record import iter_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.log.log import UnifiedLog
    from kaa.records.batch import RecordBatch
    from kaa.records.record import Record

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6


class TimestampAndOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int | None


class BatchSearch(NamedTuple):
    """A batch with the answer in it, or the next one that may have it: read, but not looked through
    yet. That may take long, since batches expand, and can be done on any thread.
    """

    batch: RecordBatch | LegacyBatch
    timestamp: int
    start_offset: int

    def run(self) -> TimestampAndOffset | None:
        """The first record at or after the timestamp; None if it lies before the start."""
        for record in _records(self.batch):
            if record.timestamp >= self.timestamp and record.offset >= self.start_offset:
                return _answer(record.timestamp, record.offset, self.batch)
        return None

    @property
    def next_offset(self) -> int:
        """Where the search goes on."""
        return self.batch.last_offset + 1


def look_up(
    log: UnifiedLog, timestamp: int, start_offset: int = 0
) -> TimestampAndOffset | BatchSearch | None:
    """The answer to a timestamp or to one of the questions above; None if no record fits.

    Where a batch has to be searched, it is given instead, to be run wherever that may take long; if
    it holds no answer, the look-up goes on at its `next_offset`. LATEST is the log end; the part
    that serves clients replaces it by what they may see. StorageError if the disk cannot be read.
    """
    epochs = log.leader_epochs
    if timestamp in {EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP}:
        earliest = timestamp == EARLIEST_TIMESTAMP
        offset = log.log_start_offset if earliest else log.local_log_start_offset
        return TimestampAndOffset(NO_TIMESTAMP, offset, epochs.epoch_for_offset(offset))
    if timestamp == LATEST_TIMESTAMP:
        return TimestampAndOffset(NO_TIMESTAMP, log.log_end_offset, epochs.latest_epoch)
    if timestamp in {LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP}:
        is_pending = timestamp == EARLIEST_PENDING_UPLOAD_TIMESTAMP
        offset = _tiered_end(log, is_pending=is_pending)
        epoch = -1 if offset < 0 else epochs.epoch_for_offset(offset)
        return TimestampAndOffset(NO_TIMESTAMP, offset, epoch)
    if log.directory.offline_reason is not None:
        raise log.directory.storage_error()
    with log.reading():
        if timestamp == MAX_TIMESTAMP:
            return _find_max_timestamp(log, start_offset)
        return _find_timestamp(log, timestamp, max(start_offset, log.log_start_offset))


def _tiered_end(log: UnifiedLog, *, is_pending: bool) -> int:
    """The last offset in remote storage, or the first that still has to go there; -1 for none."""
    if not log.is_tiered:
        return -1
    if not is_pending:
        return log.copied_offset
    if log.copied_offset < 0 and log.local_log_start_offset > log.log_start_offset:
        # Something is there, and how far it goes is not known yet.
        return -1
    return max(log.copied_offset + 1, log.log_start_offset)


def _find_timestamp(log: UnifiedLog, timestamp: int, start_offset: int) -> BatchSearch | None:
    """The first batch from `start_offset` on with a timestamp of at least `timestamp`."""
    for segment in log.segments.between(start_offset, log.log_end_offset):
        if segment.largest_timestamp < timestamp:
            continue
        found = segment.find_by_timestamp(timestamp, start_offset)
        if found is not None:
            return BatchSearch(found.load(segment.file), timestamp, start_offset)
    return None


def _find_max_timestamp(log: UnifiedLog, start_offset: int) -> BatchSearch | None:
    """The first batch with the greatest timestamp of the log."""
    segment = max(log.segments, key=lambda segment: segment.max_timestamp)
    greatest = segment.max_timestamp
    if greatest < 0:
        return None
    extent = segment.locate(max(segment.max_timestamp_offset, start_offset))
    if extent is None:
        return None
    for found in segment.batches_from(extent.position):
        if found.max_timestamp == greatest:
            return BatchSearch(found.load(segment.file), greatest, start_offset)
    return None


def _records(batch: RecordBatch | LegacyBatch) -> Iterator[Record]:
    return iter_legacy_records(batch) if isinstance(batch, LegacyBatch) else iter_records(batch)


def _answer(timestamp: int, offset: int, batch: RecordBatch | LegacyBatch) -> TimestampAndOffset:
    epoch = batch.partition_leader_epoch
    return TimestampAndOffset(timestamp, offset, epoch if epoch >= 0 else None)
