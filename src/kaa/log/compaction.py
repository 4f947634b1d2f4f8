"""Compaction of one log: of each key only the latest record stays.

A round works on a range: from the first dirty offset (where the last round ended) to the first
uncleanable one (active segment, last stable offset, records younger than min.compaction.lag.ms).

1. The dirty part is read into a map from key to latest offset (`kaa.records.compaction`), up to
   the end of the range or until the map is full. Aborted records do not count.
2. Every segment from the start of the log to where the map ended is copied, several small ones into
   one. Of each batch stay the records that are the latest of their key or lie after the map.
3. Each copy is synced and swapped in (`kaa.log.swap`).

What else has to stay, as in Kafka:

* A tombstone stays for `delete.retention.ms` from the round that first met it: that round writes
  the time until which it must stay into its batch, the delete horizon (KIP-534).
* A transaction marker stays as long as records of its transaction do, and from then on as long as a
  tombstone. Records of aborted transactions go at once.
* The last batch of each producer still known stays, empty if need be, with its sequence and epoch;
  and so does the last batch of the range, so that the end of the log is not forgotten.

`Compaction.run` is a generator that hands out jobs, one for each window of a segment, which have
to be run, off the loop, before it is resumed. What a job works on is the round's own: the batches
that it reads, the map, the copy. Meanwhile the log may be written, truncated or deleted; a round
that finds its segments changed removes what it has made and ends.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import (
    PRODUCERS_PER_SLICE_MAX,
    SCAN_WINDOW_BYTES,
    SEGMENTS_REMOVED_PER_TURN_MAX,
)
from kaa.log.index import RELATIVE_OFFSET_MAX
from kaa.log.jobs import SyncJob, WorkJob
from kaa.log.names import CLEANED_SUFFIX, LOG_SUFFIX
from kaa.log.scan import iter_headers, no_batch
from kaa.log.segment import Segment
from kaa.log.swap import replace_segments
from kaa.log.transactions import CleanedTransactions
from kaa.model.topics import NO_OFFSET
from kaa.records.batch import RecordBatch
from kaa.records.compaction import (
    RECORD_HAS_KEY,
    RECORD_HAS_VALUE,
    RECORD_IS_BEHIND_MAP,
    RECORD_IS_LATEST,
    empty_batch,
    expanded_records,
    keep_table,
    retain,
)
from kaa.records.errors import CorruptRecordsError
from kaa.records.legacy import LegacyBatch, upgrade_batch

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kaa.log.files import File
    from kaa.log.jobs import Job
    from kaa.log.log import UnifiedLog
    from kaa.records.batch import Buffer
    from kaa.records.compaction import OffsetMap


def _is_kept(flags: int) -> bool:
    if flags & RECORD_IS_BEHIND_MAP:
        return True
    return bool(flags & RECORD_HAS_KEY and flags & RECORD_IS_LATEST)


_KEEP = keep_table(_is_kept)
"""While tombstones must stay."""
_KEEP_VALUES = keep_table(
    lambda flags: _is_kept(flags) and bool(flags & (RECORD_HAS_VALUE | RECORD_IS_BEHIND_MAP))
)
"""After the delete horizon."""
_KEPT_TOMBSTONES = keep_table(lambda flags: _is_kept(flags) and not flags & RECORD_HAS_VALUE)


class CompactionRange(NamedTuple):
    first_dirty_offset: int
    first_uncleanable_offset: int


class CompactionAbortedError(Exception):
    """The log was truncated or lost segments meanwhile; nothing was changed."""


class Compaction:
    """One round over one log."""

    def __init__(
        self, log: UnifiedLog, dirty: CompactionRange, offset_map: OffsetMap, now_ms: int
    ) -> None:
        self._log = log
        self._dirty = dirty
        self._map = offset_map
        self._now_ms = now_ms
        self._generation = log.generation
        self._transactions = CleanedTransactions()
        # Read and written.
        self.moved_bytes = 0
        # Everything below is clean when the round has ended.
        self.end_offset = dirty.first_dirty_offset

    def run(self) -> Generator[Job | None, None, None]:
        """CompactionAbortedError if the log changed, RecordsError if a batch is damaged."""
        yield from self._fill_map()
        self.end_offset = self._map.latest_offset + 1
        sources = self._log.segments.between(0, self.end_offset)
        for group in group_segments(sources, self._log, self._dirty.first_uncleanable_offset):
            yield from self._clean_group(group)

    # --- the map

    def _fill_map(self) -> Iterator[Job | None]:
        start, end = self._dirty
        transactions = CleanedTransactions()
        transactions.add(self._log.collect_aborted_for_cleaning(start, end))
        dirty = self._log.segments.between(start, end)
        for segment, following in zip(dirty, [*dirty[1:], None], strict=True):
            extent = segment.locate(start)
            position = segment.size if extent is None else extent.position
            with self._reading(segment, position) as windows:
                is_full: bool | None = False
                while is_full is False:
                    work = partial(self._scan, windows, transactions)
                    job = WorkJob(self._log.directory, work)
                    yield job
                    self._check()
                    is_full = job.result
            if is_full:
                return
            # Offsets that compaction has removed before are as good as read.
            self._map.advance((end if following is None else following.base_offset) - 1)

    def _scan(
        self, windows: Iterator[list[RecordBatch]], transactions: CleanedTransactions
    ) -> bool | None:
        """Puts the keys of a window into the map; True if it is full, None after the last one."""
        batches = next(windows, None)
        if batches is None:
            return None
        start = self._dirty.first_dirty_offset
        return any(
            self._map.scan(batch, start, is_aborted=transactions.take(batch)) for batch in batches
        )

    @contextmanager
    def _reading(self, segment: Segment, position: int) -> Iterator[Iterator[list[RecordBatch]]]:
        """The windows of a segment, which stays open although another thread reads them."""
        with segment.held():
            yield self._windows(segment, segment.file, position)

    def _windows(self, segment: Segment, file: File, position: int) -> Iterator[list[RecordBatch]]:
        """Whole, checked batches from a position on, as many as fill a window or one."""
        window: list[RecordBatch] = []
        window_start = position
        next_offset = segment.base_offset
        for stored in iter_headers(file, position, segment.size, SCAN_WINDOW_BYTES):
            if stored.base_offset < next_offset or not segment.can_hold(
                stored.base_offset, stored.last_offset
            ):
                raise CorruptRecordsError(f"{stored} is out of place")
            next_offset = stored.next_offset
            batch: RecordBatch | LegacyBatch = stored
            if stored.end > len(stored.buffer):
                batch = stored.load(file)
            window.append(_checked(batch))
            self.moved_bytes += stored.size_in_bytes
            position = stored.file_end
            if position - window_start >= SCAN_WINDOW_BYTES:
                yield window
                window, window_start = [], position
        if position != segment.size:
            raise no_batch(file, position)
        if window:
            yield window

    # --- copying

    def _clean_group(self, sources: list[Segment]) -> Iterator[Job | None]:
        log = self._log
        with log.storage():
            cleaned = Segment.create(
                log.directory.files,
                log.folder,
                sources[0].base_offset,
                log.config,
                suffix=CLEANED_SUFFIX,
                created_ms=self._now_ms,
            )
        try:
            yield from self._copy(sources, cleaned)
            with log.storage():
                cleaned.seal()
                syncs = cleaned.flush_indexes()
            yield SyncJob(log.directory, syncs)
            self._check(sources)
            with log.storage():
                modified_ms = sources[-1].modified_ms
                log.directory.files.set_modified_ms(cleaned.path(LOG_SUFFIX), modified_ms)
            cleaned.is_synced = True
            replace_segments(log, cleaned, sources, self._now_ms)
        finally:
            if cleaned.suffix == CLEANED_SUFFIX:
                self._discard(cleaned)
            elif not log.directory.is_online:
                cleaned.close()

    def _discard(self, cleaned: Segment) -> None:
        try:
            if self._log.directory.is_online:
                with self._log.storage():
                    cleaned.delete()
        finally:
            cleaned.close()

    def _copy(self, sources: list[Segment], cleaned: Segment) -> Iterator[Job | None]:
        log = self._log
        self._transactions.index = cleaned.transaction_index
        last_records: dict[int, tuple[int, int]] = {}
        producers = tuple(log.producer_state.producers.values())
        for number, entry in enumerate(producers, 1):
            last_records[entry.producer_id] = (entry.last_data_offset, entry.epoch)
            if number % PRODUCERS_PER_SLICE_MAX == 0:
                yield None
                self._check(sources)
        for source, following in zip(sources, [*sources[1:], None], strict=True):
            end = source.read_next_offset() if following is None else following.base_offset
            self._transactions.add(log.collect_aborted_for_cleaning(source.base_offset, end))
            with self._reading(source, 0) as windows:
                kept: list[Buffer] | None = []
                while kept is not None:
                    work = partial(self._filter, windows, last_records, cleaned)
                    job = WorkJob(log.directory, work)
                    yield job
                    self._check(sources)
                    kept = job.result
                    self._commit(cleaned, kept)

    def _filter(
        self,
        windows: Iterator[list[RecordBatch]],
        last_records: dict[int, tuple[int, int]],
        cleaned: Segment,
    ) -> list[Buffer] | None:
        """Writes what stays of a window; None after the last one."""
        batches = next(windows, None)
        if batches is None:
            return None
        found = (self._filter_batch(batch, last_records) for batch in batches)
        kept = [content for content in found if content is not None]
        if kept:
            cleaned.write(kept)
        return kept

    def _commit(self, cleaned: Segment, batches: list[Buffer] | None) -> None:
        if not batches:
            return
        views = [RecordBatch(content) for content in batches]
        cleaned.commit((v.last_offset, v.max_timestamp, v.size_in_bytes) for v in views)
        self.moved_bytes += sum(map(len, batches))

    def _filter_batch(
        self, batch: RecordBatch, last_records: dict[int, tuple[int, int]]
    ) -> Buffer | None:
        """What stays of a batch; None if nothing does."""
        can_discard = self._transactions.take(batch)
        discard = can_discard
        if batch.is_control:
            horizon = batch.delete_horizon_ms
            discard = can_discard and horizon is not None and horizon <= self._now_ms
        kept = None
        if not discard and batch.record_count > 0:
            if batch.is_control:
                kept = self._keep_marker(batch, of_empty_transaction=can_discard)
            else:
                kept = self._keep_records(batch)
        if kept is None and self._must_stay(batch, last_records):
            return empty_batch(batch)
        return kept

    def _keep_marker(self, batch: RecordBatch, *, of_empty_transaction: bool) -> Buffer | None:
        if of_empty_transaction and batch.delete_horizon_ms is None:
            everything = b"\x01" * batch.record_count
            return retain(batch, batch.payload, everything, self._new_horizon_ms)
        return bytes(batch.view)

    def _keep_records(self, batch: RecordBatch) -> Buffer | None:
        records = expanded_records(batch)
        flags = self._map.flags(batch, records)
        horizon = batch.delete_horizon_ms
        if horizon is not None:
            table = _KEEP if self._now_ms < horizon else _KEEP_VALUES
            kept = retain(batch, records, flags.translate(table))
        elif 1 in flags.translate(_KEPT_TOMBSTONES):
            kept = retain(batch, records, flags.translate(_KEEP), self._new_horizon_ms)
        else:
            kept = retain(batch, records, flags.translate(_KEEP))
        return bytes(kept) if isinstance(kept, memoryview) else kept

    @property
    def _new_horizon_ms(self) -> int:
        return self._now_ms + self._log.config.delete_retention_ms

    def _must_stay(self, batch: RecordBatch, last_records: dict[int, tuple[int, int]]) -> bool:
        """Whether a batch without records still has something to tell."""
        if batch.producer_id in last_records:
            last_offset, epoch = last_records[batch.producer_id]
            if last_offset == NO_OFFSET:
                if batch.is_control and batch.producer_epoch == epoch:
                    return True
            elif batch.last_offset == last_offset:
                return True
        return batch.next_offset == self._dirty.first_uncleanable_offset

    def _check(self, sources: list[Segment] | None = None) -> None:
        log = self._log
        if log.generation != self._generation or not log.directory.is_online or log.is_closed:
            raise CompactionAbortedError
        if log.is_moving:
            # The copy may have records that this round is about to remove, and would be taken for
            # clean after the swap: deleted keys would be back when their tombstones are gone.
            raise CompactionAbortedError
        if sources:
            start, last = sources[0].base_offset, sources[-1].base_offset
            if log.segments.between(start, last + 1) != sources:
                raise CompactionAbortedError


def _checked(batch: RecordBatch | LegacyBatch) -> RecordBatch:
    """The batch, whose checksum is right: a rewritten one gets a new one, which must not hide a
    damage. One of an old magic becomes one of ours here, as in Kafka, whatever is kept of it.
    """
    if isinstance(batch, LegacyBatch):
        if not batch.is_valid_crc():
            raise CorruptRecordsError(f"the checksum of offset {batch.last_offset} is wrong")
        return RecordBatch(upgrade_batch(batch))
    batch.ensure_valid()
    return batch


def group_segments(
    segments: list[Segment], log: UnifiedLog, first_uncleanable_offset: int
) -> list[list[Segment]]:
    """Neighbours whose copies surely fit one segment and its indexes. Of hundreds that are tiny a
    few are put together each time: they are taken out of the log in one turn of the loop.
    """
    config = log.config
    bases = [segment.base_offset for segment in segments]
    ends = [base - 1 for base in bases[1:]] + [first_uncleanable_offset - 1]
    groups: list[list[Segment]] = []
    sizes = (0, 0, 0)
    for segment, last_offset in zip(segments, ends, strict=True):
        offset_index, time_index = segment.offset_index, segment.time_index
        own = (segment.size, offset_index.size_in_bytes, time_index.size_in_bytes)
        total = (sizes[0] + own[0], sizes[1] + own[1], sizes[2] + own[2])
        fits = (
            groups
            and len(groups[-1]) < SEGMENTS_REMOVED_PER_TURN_MAX
            and total[0] <= config.segment_bytes
            and max(total[1:]) <= config.segment_index_bytes
            and (
                segment.size == 0 or last_offset - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
            )
        )
        if fits:
            groups[-1].append(segment)
            sizes = total
        else:
            groups.append([segment])
            sizes = own
    return groups
