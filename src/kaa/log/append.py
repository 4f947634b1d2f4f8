"""Deciding about an append: what is refused, what is a duplicate, what is to be written where.

An append has three steps, so that the middle one can run on another thread while the loop serves
others: ``UnifiedLog.prepare_append`` checks and patches the batches (here) and picks the segment,
``AppendPlan.write`` makes the system calls, and ``UnifiedLog.complete_append`` makes the result
visible. Between the first and the last the log accepts no other append, and a refusal before the
write leaves no trace. ``UnifiedLog.append`` does all three.

Batches from clients are validated before they come here (``kaa.records.validate``); offsets and
leader epoch are patched in place, both outside the checksummed part. Batches of a leader are taken
as they are, after a look at their checksums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.log.errors import LogError
from kaa.log.producer_state import NO_OFFSET, AppendOrigin
from kaa.records.batch import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_TIMESTAMP,
    iter_batches,
)
from kaa.records.control import read_end_transaction_marker
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from kaa.log.files import Buffer
    from kaa.log.flush import FlushJob
    from kaa.log.log import UnifiedLog
    from kaa.log.producer_state import CompletedTransaction, ProducerAppend, VerificationGuard
    from kaa.log.segment import Segment
    from kaa.records.batch import RecordBatch


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
        self.log_append_time_ms = NO_TIMESTAMP
        """Set if the topic has append time, and for duplicates."""
        self.log_start_offset = log_start_offset
        self.size_in_bytes = 0
        self.is_duplicate = False
        """Written before under the same sequences; the offsets are those of that time."""

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
        "producers",
        "segment",
        "verified",
    )

    def __init__(self, info: AppendInfo) -> None:
        self.info = info
        self.segment: Segment | None = None
        """Where the batches go; None if there is nothing to write."""
        self.buffer: Buffer = b""
        self.batches: list[RecordBatch] = []
        """Those of idempotent and transactional producers."""
        self.extents: list[tuple[int, int, int]] = []
        """Last offset, greatest timestamp and size of each batch."""
        self.producers: dict[int, ProducerAppend] = {}
        self.verified: dict[int, int] = {}
        """By producer id: its transaction is in the log now, or over, and the verification has
        served. The epoch is that of the marker, or none if the batch has records."""
        self.completed: list[CompletedTransaction] = []
        self.flush: FlushJob | None = None
        """Set if the flush policy of the topic wants these batches durable at once."""

    def write(self) -> None:
        """System calls only. OSError means that the directory is broken."""
        if self.segment is not None:
            self.segment.write((self.buffer,))
            if self.flush is not None:
                self.flush.run()


def plan_leader_append(
    log: UnifiedLog, records: bytearray | memoryview, leader_epoch: int, origin: AppendOrigin
) -> AppendPlan:
    """Assigns offsets and epoch. LogError refuses the append."""
    info = AppendInfo(log.log_start_offset)
    plan = AppendPlan(info)
    offset = info.first_offset = log.log_end_offset
    bytes_max = log.config.max_message_bytes
    for batch in iter_batches(records):
        size = batch.size_in_bytes
        if size > bytes_max and origin is not AppendOrigin.RAFT_LEADER:
            raise LogError(
                Errors.MESSAGE_TOO_LARGE, f"a batch of {size} bytes; {bytes_max} are allowed"
            )
        batch.set_base_offset(offset)
        batch.set_partition_leader_epoch(leader_epoch)
        offset += batch.last_offset_delta + 1
        timestamp = batch.max_timestamp
        plan.extents.append((offset - 1, timestamp, size))
        info.max_timestamp = max(info.max_timestamp, timestamp)
        info.size_in_bytes += size
        if batch.producer_id >= 0:
            plan.batches.append(batch)
    plan.buffer = records
    info.last_offset = offset - 1
    info.last_leader_epoch = leader_epoch
    if leader_epoch >= 0:
        log.leader_epochs.assign(leader_epoch, info.first_offset)
    if log.config.message_timestamp_type == "LogAppendTime":
        info.log_append_time_ms = info.max_timestamp
    return plan


def plan_follower_append(
    log: UnifiedLog, records: bytes | bytearray | memoryview, leader_epoch: int
) -> AppendPlan:
    """Takes batches up to the first that is incomplete or of a newer epoch than the leader's.

    CorruptRecordsError if one is damaged, UnexpectedAppendOffsetError if one does not fit.
    """
    info = AppendInfo(log.log_start_offset)
    plan = AppendPlan(info)
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
    return plan


def judge_producers(
    log: UnifiedLog,
    plan: AppendPlan,
    origin: AppendOrigin,
    guard: VerificationGuard | None = None,
    transaction_version: int = 0,
) -> None:
    """Checks sequences, epochs and transactions; a duplicate leaves nothing to write."""
    for batch in plan.batches:
        if origin is AppendOrigin.CLIENT and _is_duplicate(log, plan, batch):
            return
        _check_verification(log, batch, origin, guard)
        _track_producer(log, plan, batch, origin, transaction_version)


def _is_duplicate(log: UnifiedLog, plan: AppendPlan, batch: RecordBatch) -> bool:
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


def _check_verification(
    log: UnifiedLog, batch: RecordBatch, origin: AppendOrigin, guard: VerificationGuard | None
) -> None:
    """A transaction starts here only if its coordinator knows of it (KIP-890)."""
    if (
        batch.is_transactional
        and not batch.is_control
        and log.verify_transactions
        and origin in {AppendOrigin.CLIENT, AppendOrigin.COORDINATOR}
        and not log.producer_state.has_ongoing_transaction(batch.producer_id, batch.producer_epoch)
        and not log.producer_state.is_verified(batch.producer_id, guard)
    ):
        raise LogError(
            Errors.INVALID_TXN_STATE,
            f"producer {batch.producer_id} has no verified transaction on this partition",
        )


def _track_producer(
    log: UnifiedLog,
    plan: AppendPlan,
    batch: RecordBatch,
    origin: AppendOrigin,
    transaction_version: int,
) -> None:
    append = plan.producers.get(batch.producer_id)
    if append is None:
        append = log.producer_state.prepare(batch.producer_id, origin)
        plan.producers[batch.producer_id] = append
    if batch.is_transactional:
        epoch = batch.producer_epoch if batch.is_control else NO_PRODUCER_EPOCH
        plan.verified[batch.producer_id] = epoch
    if not batch.is_control:
        append.append_data(batch)
        return
    marker = read_end_transaction_marker(batch)
    if marker is not None:
        completed = append.append_marker(marker, batch, transaction_version)
        if completed is not None:
            plan.completed.append(completed)
