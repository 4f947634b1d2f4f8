"""An append from its first byte to its place in the log: judged, placed, written, made visible.

It has three steps, so that the middle one can run on another thread while the loop serves others:

1. `prepare_leader_append` and `prepare_follower_append` check the batches, find the segment for
   them, a new one if need be, and judge their producers. LogError refuses the append, and leaves at
   most a new segment and the leader's epoch in the cache. What comes out is an `AppendPlan`.
2. `AppendPlan.write` makes the system calls.
3. `AppendPlan.complete` makes the batches part of the log: its end, its producers, transactions.

Between the first and the last the log accepts no other append. `AppendPlan.finish` does the second
and the third at once; `kaa.log.pending` has the second done by a thread.

Batches from clients are validated before they come here (`kaa.records.validate`); offsets and
leader epoch are patched in place, both outside the checksummed part. Batches of a leader are taken
as they are, after a look at their checksums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.log.errors import LogError
from kaa.log.replay import note_completed_transaction
from kaa.model.kinds import AppendOrigin
from kaa.model.topics import NO_OFFSET, NO_TIMESTAMP
from kaa.records.batch import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    RecordBatch,
    iter_batches,
)
from kaa.records.control import read_end_transaction_marker
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.log.errors import StorageError
    from kaa.log.files import Buffer
    from kaa.log.flush import FlushJob
    from kaa.log.log import UnifiedLog
    from kaa.log.producer_state import CompletedTransaction, ProducerAppend, VerificationGuard
    from kaa.log.segment import Segment


class AppendSource(NamedTuple):
    """Whose batches are appended, by which their producers are judged."""

    origin: AppendOrigin = AppendOrigin.CLIENT
    # Says that the coordinator knows of a transaction that begins with these batches (KIP-890).
    guard: VerificationGuard | None = None
    # Of the transaction that a marker ends.
    transaction_version: int = 0


BY_CLIENT: Final = AppendSource()
BY_COORDINATOR: Final = AppendSource(AppendOrigin.COORDINATOR)
_BY_REPLICATION: Final = AppendSource(AppendOrigin.REPLICATION)


class UnexpectedAppendOffsetError(LogError):
    """A follower was given batches that do not continue its log."""

    def __init__(self, first_offset: int, last_offset: int, log_end_offset: int) -> None:
        super().__init__(
            Errors.UNKNOWN_SERVER_ERROR,
            f"offsets [{first_offset}, {last_offset}] do not continue a log that ends at "
            f"{log_end_offset}",
        )
        self.first_offset = first_offset
        self.last_offset = last_offset


class AppendInfo:
    """What the sender learns about its batches."""

    __slots__ = (
        "first_offset",
        "is_duplicate",
        "last_leader_epoch",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
        "max_timestamp",
        "size_in_bytes",
    )

    def __init__(self, log_start_offset: int) -> None:
        self.first_offset = NO_OFFSET
        self.last_offset = NO_OFFSET
        self.last_leader_epoch = -1
        self.max_timestamp = NO_TIMESTAMP
        # Set if the topic has append time, and for duplicates.
        self.log_append_time_ms = NO_TIMESTAMP
        self.log_start_offset = log_start_offset
        self.size_in_bytes = 0
        # Written before under the same sequences; the offsets are those of that time.
        self.is_duplicate = False

    @property
    def record_count(self) -> int:
        return self.last_offset - self.first_offset + 1 if self.first_offset >= 0 else 0


class AppendPlan:
    """An append that was accepted and is not yet part of the log."""

    __slots__ = (
        "batches",
        "buffer",
        "completed",
        "extents",
        "flush",
        "info",
        "log",
        "producers",
        "segment",
        "verified",
    )

    def __init__(self, log: UnifiedLog) -> None:
        """Waits for the append before it; StorageError if the directory is offline."""
        log.settle()
        if log.directory.offline_reason is not None:
            raise log.directory.storage_error()
        self.log = log
        self.info = AppendInfo(log.log_start_offset)
        # Where the batches go; None if there is nothing to write.
        self.segment: Segment | None = None
        self.buffer: Buffer = b""
        # Those of idempotent and transactional producers.
        self.batches: list[RecordBatch] = []
        # Last offset, greatest timestamp and size of each batch.
        self.extents: list[tuple[int, int, int]] = []
        self.producers: dict[int, ProducerAppend] = {}
        # By producer id: its transaction is in the log now, or over, and the verification has
        # served. The epoch is that of the marker, or none if the batch has records.
        self.verified: dict[int, int] = {}
        self.completed: list[CompletedTransaction] = []
        # Set if the flush policy of the topic wants these batches durable at once.
        self.flush: FlushJob | None = None

    def finish(self, now_ms: int) -> AppendInfo:
        """Writes on the calling thread, and completes."""
        if self.segment is not None:
            try:
                self.write()
            except OSError as error:
                raise self.fail(error) from error
            self.complete(now_ms)
        return self.info

    def write(self) -> None:
        """System calls only. OSError means that the directory is broken."""
        if self.segment is not None:
            self.segment.write((self.buffer,))
            if self.flush is not None:
                self.flush.run()

    def fail(self, error: OSError) -> StorageError:
        """The write did not succeed: the directory is offline. Returns the error to raise."""
        if self.flush is not None:
            self.flush.close(done=False)
        return self.log.failed(error)

    def complete(self, now_ms: int) -> None:
        """Makes written batches part of the log."""
        log, segment, info = self.log, self.segment, self.info
        assert segment is not None
        log.remember(info.first_offset, segment, segment.size)
        try:
            segment.commit(self.extents)
        except OSError as error:
            raise self.fail(error) from error
        log.log_end_offset = info.last_offset + 1
        state = log.producer_state
        for append in self.producers.values():
            state.update(append)
        for producer_id, marker_epoch in self.verified.items():
            state.end_verification(producer_id, marker_epoch)
        if self.completed:
            with log.storage():
                for transaction in self.completed:
                    note_completed_transaction(state, segment, transaction)
        state.end_offset = log.log_end_offset
        if self.flush is not None:
            log.complete_flush(self.flush, now_ms)


def prepare_leader_append(
    log: UnifiedLog,
    records: bytearray | memoryview | RecordBatch,
    *,
    leader_epoch: int,
    now_ms: int,
    source: AppendSource = BY_CLIENT,
) -> AppendPlan:
    """The first step of an append by the leader, of all batches in a buffer or of a single one."""
    plan = AppendPlan(log)
    _assign_offsets(log, plan, records, leader_epoch, source.origin)
    _place(log, plan, now_ms)
    if plan.batches:
        _judge_producers(log, plan, source)
    if plan.segment is not None and log.flushes_at(plan.info.last_offset + 1):
        plan.flush = log.make_flush_job(plan.info.last_offset + 1, whole_active=False)
    return plan


def prepare_follower_append(
    log: UnifiedLog, records: bytes | bytearray | memoryview, *, leader_epoch: int, now_ms: int
) -> AppendPlan:
    """The first step of an append by a follower.

    CorruptRecordsError if a batch is damaged, UnexpectedAppendOffsetError if one does not fit.
    """
    plan = AppendPlan(log)
    _take_offsets(log, plan, records, leader_epoch)
    _place(log, plan, now_ms)
    _judge_producers(log, plan, _BY_REPLICATION)
    if plan.segment is not None and log.flushes_at(plan.info.last_offset + 1):
        plan.flush = log.make_flush_job(plan.info.last_offset + 1, whole_active=False)
    return plan


def append_as_leader(
    log: UnifiedLog,
    records: bytearray | memoryview,
    *,
    leader_epoch: int,
    now_ms: int,
    source: AppendSource = BY_CLIENT,
) -> AppendInfo:
    """All three steps on the calling thread."""
    plan = prepare_leader_append(
        log, records, leader_epoch=leader_epoch, now_ms=now_ms, source=source
    )
    return plan.finish(now_ms)


def append_as_follower(
    log: UnifiedLog, records: bytes | bytearray | memoryview, *, leader_epoch: int, now_ms: int
) -> AppendInfo:
    """All three steps on the calling thread."""
    plan = prepare_follower_append(log, records, leader_epoch=leader_epoch, now_ms=now_ms)
    return plan.finish(now_ms)


def _assign_offsets(
    log: UnifiedLog,
    plan: AppendPlan,
    records: bytearray | memoryview | RecordBatch,
    leader_epoch: int,
    origin: AppendOrigin,
) -> None:
    """Gives the batches their offsets and the leader's epoch, where they lie."""
    info = plan.info
    offset = info.first_offset = log.log_end_offset
    bytes_max = log.config.max_message_bytes
    batches: Iterable[RecordBatch]
    if isinstance(records, RecordBatch):
        batches, plan.buffer = (records,), records.view
    else:
        batches, plan.buffer = iter_batches(records), records
    for batch in batches:
        size = batch.size_in_bytes
        if size > bytes_max and origin is not AppendOrigin.RAFT_LEADER:
            raise LogError(
                Errors.MESSAGE_TOO_LARGE, f"a batch of {size} bytes; {bytes_max} are allowed"
            )
        batch.place(offset, leader_epoch)
        offset += batch.last_offset_delta + 1
        timestamp = batch.max_timestamp
        plan.extents.append((offset - 1, timestamp, size))
        info.max_timestamp = max(info.max_timestamp, timestamp)
        info.size_in_bytes += size
        if batch.producer_id >= 0:
            plan.batches.append(batch)
    info.last_offset = offset - 1
    info.last_leader_epoch = leader_epoch
    if leader_epoch >= 0:
        log.leader_epochs.assign(leader_epoch, info.first_offset)
    if log.config.message_timestamp_type == "LogAppendTime":
        info.log_append_time_ms = info.max_timestamp


def _take_offsets(
    log: UnifiedLog,
    plan: AppendPlan,
    records: bytes | bytearray | memoryview,
    leader_epoch: int,
) -> None:
    """Takes batches up to the first that is incomplete or of a newer epoch than the leader's."""
    info = plan.info
    next_offset = log.log_end_offset
    epochs: list[tuple[int, int]] = []
    for batch in iter_batches(records):
        if batch.partition_leader_epoch > leader_epoch:
            break
        batch.ensure_valid()
        if batch.base_offset < next_offset:
            raise UnexpectedAppendOffsetError(
                batch.base_offset, batch.last_offset, log.log_end_offset
            )
        if info.first_offset == NO_OFFSET:
            info.first_offset = batch.base_offset
        info.last_offset = batch.last_offset
        next_offset = info.last_offset + 1
        plan.extents.append((info.last_offset, batch.max_timestamp, batch.size_in_bytes))
        info.max_timestamp = max(info.max_timestamp, batch.max_timestamp)
        info.size_in_bytes += batch.size_in_bytes
        info.last_leader_epoch = batch.partition_leader_epoch
        if info.last_leader_epoch != NO_PARTITION_LEADER_EPOCH:
            epochs.append((info.last_leader_epoch, batch.base_offset))
        if batch.producer_id >= 0:
            plan.batches.append(batch)
    for epoch, start_offset in epochs:
        log.leader_epochs.assign(epoch, start_offset)
    plan.buffer = memoryview(records)[: info.size_in_bytes]


def _place(log: UnifiedLog, plan: AppendPlan, now_ms: int) -> None:
    """Finds the segment for what was accepted, a new one if need be."""
    if not plan.extents:
        return
    info = plan.info
    size = info.size_in_bytes
    if size > log.config.segment_bytes:
        raise LogError(
            Errors.RECORD_LIST_TOO_LARGE,
            f"{size} bytes do not fit a segment of {log.config.segment_bytes}",
        )
    segment = log.segments.active
    try:
        is_full = segment.should_roll(now_ms, size, info.max_timestamp, info.last_offset)
    except OSError as error:
        raise log.failed(error) from error
    if is_full:
        segment = log.roll(now_ms, info.first_offset)
    plan.segment = segment


def _judge_producers(log: UnifiedLog, plan: AppendPlan, source: AppendSource) -> None:
    """Checks sequences, epochs and transactions; a duplicate leaves nothing to write."""
    for batch in plan.batches:
        if source.origin is AppendOrigin.CLIENT and _note_duplicate(log, plan, batch):
            return
        _check_verification(log, batch, source)
        _track_producer(log, plan, batch, source)


def _note_duplicate(log: UnifiedLog, plan: AppendPlan, batch: RecordBatch) -> bool:
    """Plans to write nothing if the batch was written before; whether it was."""
    duplicate = log.producer_state.find_duplicate(batch)
    if duplicate is None:
        return False
    info = plan.info
    info.first_offset = duplicate.first_offset
    info.last_offset = duplicate.last_offset
    info.log_append_time_ms = duplicate.timestamp
    info.is_duplicate = True
    plan.segment = None
    return True


def _check_verification(log: UnifiedLog, batch: RecordBatch, source: AppendSource) -> None:
    """A transaction starts here only if its coordinator knows of it (KIP-890)."""
    if (
        batch.is_transactional
        and not batch.is_control
        and log.verify_transactions
        and source.origin in {AppendOrigin.CLIENT, AppendOrigin.COORDINATOR}
        and not log.producer_state.has_ongoing_transaction(batch.producer_id, batch.producer_epoch)
        and not log.producer_state.is_verified(batch.producer_id, source.guard)
    ):
        raise LogError(
            Errors.INVALID_TXN_STATE,
            f"producer {batch.producer_id} has no verified transaction on this partition",
        )


def _track_producer(
    log: UnifiedLog, plan: AppendPlan, batch: RecordBatch, source: AppendSource
) -> None:
    append = plan.producers.get(batch.producer_id)
    if append is None:
        append = log.producer_state.prepare(batch.producer_id, source.origin)
        plan.producers[batch.producer_id] = append
    if batch.is_transactional:
        epoch = batch.producer_epoch if batch.is_control else NO_PRODUCER_EPOCH
        plan.verified[batch.producer_id] = epoch
    if not batch.is_control:
        append.append_data(batch)
        return
    marker = read_end_transaction_marker(batch)
    if marker is not None:
        completed = append.append_marker(marker, batch, source.transaction_version)
        if completed is not None:
            plan.completed.append(completed)
