"""Decides whether a batch may enter the log, exactly as Kafka's broker decides.

Three steps in Kafka's order; the first one that refuses gives the error of the partition:

1. The produce request (`parse_produced`): exactly one batch of magic 2 per partition, no zstd
   below version 7. Bytes after the batch that are not a whole batch are dropped.
2. The frame: base offset 0 from clients, `max.message.bytes`, checksum, a known codec.
3. The content: count and offset range agree; no control batches from clients; a producer id needs
   a sequence; then every record: structure, a key on compacted topics, timestamps.

A record that breaks a rule of its topic is named in the answer (KIP-467); one that breaks the
format refuses the batch as a whole, whatever was noted before. Where Kafka fails in a way it has
no error code for (a codec that cannot read its data, inner offsets with gaps in a compressed
batch), the answer is UNKNOWN_SERVER_ERROR here as well.

What is accepted keeps its bytes if it can: offset, leader epoch and timestamps are patched in
place by `Validated.assign`. Only another `compression.type` than the producer's makes a new
batch. Compressed batches are validated as a stream, in constant memory; the new batch is written
while the old one is read and is bounded by `max.message.bytes`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import KERNEL_UNLOCKED_BYTES_MIN, RECORD_ERRORS_MAX
from kaa.model.kinds import AppendOrigin
from kaa.model.topics import NO_TIMESTAMP
from kaa.model.words import count_text
from kaa.records._pure_validate import (
    ERROR_NO_KEY,
    ERROR_TIMESTAMP,
    SCAN_DONE,
    SCAN_ILLEGAL_LENGTH,
    SCAN_INVALID,
)
from kaa.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    CompressionType,
    RecordBatch,
    TimestampType,
)
from kaa.records.checksum import crc32c
from kaa.records.compress import decompress_chunks
from kaa.records.errors import CompressionError, RecordsError, WorkLimitError
from kaa.records.kernel import RecordScanner, scan_plain
from kaa.records.rewrite import BatchRewriter
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from kaa.records.batch import Buffer

_BATCH_LENGTH = Struct(">xxxxxxxxi")
_INT64 = Struct(">q")
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
# The shortest message of magic 0 without its offset and length: what Kafka holds any batch to.
_BATCH_LENGTH_MIN = 14
_ZSTD_PRODUCE_VERSION_MIN = 7
# Kafka reads lastOffsetDelta, which ends here, before it looks at the size of the batch.
_LAST_OFFSET_DELTA_END = 27
# Topics that leave a batch as it is if it is not compressed.
_LEAVES_PLAIN = frozenset({None, CompressionType.NONE})
# To compress a byte takes about as long as to expand this many.
_REWRITING_COST = 8


class AppendRules(NamedTuple):
    """What the settings of a topic demand of its batches."""

    message_bytes_max: int
    # `compression.type`; None leaves batches as their producers compressed them.
    compression_type: CompressionType | None = None
    compression_level: int | None = None
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 3_600_000
    is_compacted: bool = False


class RecordError(NamedTuple):
    """One record that its topic does not accept: its index in the batch, and why."""

    batch_index: int
    message: str


class Refusal(NamedTuple):
    """Why a batch may not enter. `reason` is for logs; clients get `message` where Kafka
    gives them one, which is where record errors are named.
    """

    error: Errors
    reason: str
    message: str | None = None
    record_errors: tuple[RecordError, ...] = ()


class Validated(NamedTuple):
    """A batch that may enter, and what the log wants to know of it."""

    batch: RecordBatch
    record_count: int
    max_timestamp: int
    # Offset delta of the first record with the greatest timestamp; -1 if none has one.
    max_timestamp_offset_delta: int
    timestamp_type: TimestampType
    # When the batch came, on topics with append time; else -1.
    append_time_ms: int
    is_rewritten: bool
    expanded_bytes: int

    @property
    def stamped(self) -> RecordBatch:
        """The batch with what was found out about it; its buffer must be writable."""
        self.batch.set_max_timestamp(self.timestamp_type, self.max_timestamp)
        return self.batch

    def assign(self, first_offset: int, partition_leader_epoch: int) -> RecordBatch:
        """Patches offset, epoch and timestamps into the batch, whose buffer must be writable."""
        base_offset = first_offset + self.record_count - 1 - self.batch.last_offset_delta
        self.batch.place(base_offset, partition_leader_epoch)
        self.batch.set_max_timestamp(self.timestamp_type, self.max_timestamp)
        return self.batch


def validate_produced(
    records: Buffer,
    version: int,
    rules: AppendRules,
    now_ms: int,
    expanded_bytes_max: int | None = None,
) -> Validated | Refusal:
    """All steps for one partition of a produce request of the given version.

    With `expanded_bytes_max` it gives up (WorkLimitError) on a batch that expands beyond it, so
    that the caller can do the work again where it has time for it.
    """
    plain = _validate_plain(records, rules, now_ms)
    if plain is not None:
        return plain
    batch = parse_produced(records, version)
    if isinstance(batch, Refusal):
        return batch
    return validate_batch(batch, rules, now_ms, AppendOrigin.CLIENT, expanded_bytes_max)


def _validate_plain(records: Buffer, rules: AppendRules, now_ms: int) -> Validated | None:
    """What most requests bring, in one step: a batch that is not compressed and is accepted as it
    is. None where one has to look closer, at what is refused among others.
    """
    if rules.compression_type not in _LEAVES_PLAIN:
        return None
    timestamp_type = rules.timestamp_type
    is_append_time = timestamp_type is TimestampType.LOG_APPEND_TIME
    found = scan_plain(
        records,
        rules.message_bytes_max,
        now_ms,
        rules.timestamp_before_max_ms,
        rules.timestamp_after_max_ms,
        not is_append_time,
        rules.is_compacted,
        KERNEL_UNLOCKED_BYTES_MIN,
    )
    if found is None:
        return None
    batch = RecordBatch(records)
    if crc32c(memoryview(records)[ATTRIBUTES_POSITION:]) != batch.crc:
        return None
    max_timestamp, offset_delta = (now_ms, 0) if is_append_time else found
    append_time_ms = now_ms if is_append_time else NO_TIMESTAMP
    count, size = batch.record_count, len(records)
    return Validated(
        batch, count, max_timestamp, offset_delta, timestamp_type, append_time_ms, False, size
    )


def parse_produced(records: Buffer, version: int) -> RecordBatch | Refusal:
    """The one batch of a partition in a produce request of the given version."""
    size = _next_batch_size(records, 0)
    if isinstance(size, Refusal):
        return size
    if size == 0:
        return Refusal(Errors.INVALID_RECORD, "no record batch")
    if records[MAGIC_POSITION] != MAGIC_V2:
        return Refusal(Errors.INVALID_RECORD, f"a batch of magic {records[MAGIC_POSITION]}")
    codec = records[ATTRIBUTES_POSITION + 1] & COMPRESSION_MASK
    if version < _ZSTD_PRODUCE_VERSION_MIN and codec >= CompressionType.ZSTD:
        if codec > CompressionType.ZSTD:
            return Refusal(Errors.UNKNOWN_SERVER_ERROR, f"unknown compression type id {codec}")
        return Refusal(Errors.UNSUPPORTED_COMPRESSION_TYPE, f"zstd in version {version}")
    second = _next_batch_size(records, size)
    if isinstance(second, Refusal):
        return second
    if second > 0:
        return Refusal(Errors.INVALID_RECORD, "more than one record batch")
    if size < HEADER_BYTES:
        return _refuse_short(records, size)
    return RecordBatch(records)


def _next_batch_size(records: Buffer, position: int) -> int | Refusal:
    """Bytes of the batch at `position`, of any magic; 0 if no whole one is left."""
    available = len(records) - position
    if available < LOG_OVERHEAD_BYTES:
        return 0
    (length,) = _BATCH_LENGTH.unpack_from(records, position)
    if length < _BATCH_LENGTH_MIN:
        return Refusal(Errors.CORRUPT_MESSAGE, f"a batch length of {length}")
    if available <= MAGIC_POSITION:
        return 0
    magic = records[position + MAGIC_POSITION]
    if magic > MAGIC_V2:
        return Refusal(Errors.CORRUPT_MESSAGE, f"a batch of unknown magic {magic}")
    size: int = length + LOG_OVERHEAD_BYTES
    if size > _INT32_MAX:
        # Java's sum overflows into a negative limit, which nothing there expects.
        return Refusal(Errors.UNKNOWN_SERVER_ERROR, f"a batch length of {length}")
    return size if size <= available else 0


def _refuse_short(records: Buffer, size: int) -> Refusal:
    """A batch that ends inside its header: the first field Kafka misses gives the error."""
    if _INT64.unpack_from(records)[0] != 0:
        return Refusal(Errors.INVALID_RECORD, "a base offset other than 0")
    if size < _LAST_OFFSET_DELTA_END:
        return Refusal(Errors.UNKNOWN_SERVER_ERROR, "the batch ends inside its offsets")
    return Refusal(Errors.CORRUPT_MESSAGE, f"{size} bytes cannot hold a batch header")


def validate_batch(
    batch: RecordBatch,
    rules: AppendRules,
    now_ms: int,
    origin: AppendOrigin,
    expanded_bytes_max: int | None = None,
) -> Validated | Refusal:
    """All that a produce request is judged by, for one batch of a client or a coordinator."""
    refusal = _check_frame(batch, rules, origin) or _check_header(batch, origin)
    if refusal is not None:
        return refusal
    source = batch.compression_type
    target = source if rules.compression_type is None else rules.compression_type
    is_in_place = source is target or batch.is_control or batch.record_count == 0
    stays_compressed = is_in_place and batch.is_compressed
    rewriter = None
    if not is_in_place:
        rewriter = BatchRewriter(batch, target, rules.compression_level, rules.message_bytes_max)
    append_time = batch.max_timestamp
    scanner = RecordScanner(
        record_count=batch.record_count,
        base_timestamp=batch.base_timestamp,
        append_time=append_time if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else None,
        now_ms=now_ms,
        before_max_ms=rules.timestamp_before_max_ms,
        after_max_ms=rules.timestamp_after_max_ms,
        is_create_time_topic=rules.timestamp_type is TimestampType.CREATE_TIME,
        requires_key=rules.is_compacted,
        # Kafka ignores the lengths of records that it only skips through.
        checks_lengths=not stays_compressed,
        tracks_canonical=rewriter is not None,
        error_count_max=RECORD_ERRORS_MAX,
        unlocked_bytes_min=KERNEL_UNLOCKED_BYTES_MIN,
    )
    refusal = _scan(batch, scanner, rewriter, expanded_bytes_max) or _refuse_records(scanner)
    if refusal is not None:
        return refusal
    if stays_compressed and (not scanner.is_consecutive or batch.base_offset):
        # Kafka sets out to rewrite the batch, from records it has not kept.
        return Refusal(Errors.UNKNOWN_SERVER_ERROR, "offsets in a compressed batch have gaps")
    return _accept(batch, rules, now_ms, scanner, rewriter)


def _check_frame(batch: RecordBatch, rules: AppendRules, origin: AppendOrigin) -> Refusal | None:
    if origin is AppendOrigin.CLIENT and batch.base_offset != 0:
        return Refusal(Errors.INVALID_RECORD, f"base offset {batch.base_offset} is not 0")
    if batch.size_in_bytes > rules.message_bytes_max:
        reason = f"{batch.size_in_bytes} bytes are more than {rules.message_bytes_max}"
        return Refusal(Errors.MESSAGE_TOO_LARGE, reason)
    if not batch.is_valid_crc():
        return Refusal(Errors.CORRUPT_MESSAGE, f"checksum {batch.crc} does not match")
    codec = batch.attributes & COMPRESSION_MASK
    if codec > CompressionType.ZSTD:
        return Refusal(Errors.UNKNOWN_SERVER_ERROR, f"unknown compression type id {codec}")
    return None


def _check_header(batch: RecordBatch, origin: AppendOrigin) -> Refusal | None:
    if origin is not AppendOrigin.CLIENT:
        if batch.record_count < 0:
            return Refusal(Errors.INVALID_RECORD, f"record count {batch.record_count}")
        return None
    if batch.record_count <= 0 or batch.record_count != batch.last_offset_delta + 1:
        reason = f"record count {batch.record_count}, last offset delta {batch.last_offset_delta}"
        return Refusal(Errors.INVALID_RECORD, reason)
    if batch.is_control:
        return Refusal(Errors.INVALID_RECORD, "a control batch from a client")
    if batch.has_producer_id and batch.base_sequence < 0:
        return Refusal(Errors.INVALID_RECORD, f"base sequence {batch.base_sequence}")
    return None


def _scan(
    batch: RecordBatch,
    scanner: RecordScanner,
    rewriter: BatchRewriter | None,
    expanded_bytes_max: int | None,
) -> Refusal | None:
    """Feeds all records to the scanner, and to the rewriter on the way."""
    if batch.record_count == 0:
        return None
    if rewriter is None and not batch.is_compressed:
        # What most requests bring: one chunk, and nothing that could fail to expand.
        scanner.feed(batch.payload)
    else:
        room = _INT64_MAX if expanded_bytes_max is None else expanded_bytes_max
        cost = 1 if rewriter is None else _REWRITING_COST
        try:
            for chunk in decompress_chunks(batch.compression_type, batch.payload):
                room -= cost * len(chunk)
                if room < 0:
                    raise WorkLimitError
                if scanner.feed(chunk) > SCAN_DONE:
                    break
                if rewriter is not None:
                    rewriter.copy(chunk)
        except CompressionError as error:
            return Refusal(Errors.UNKNOWN_SERVER_ERROR, str(error))
    status = scanner.finish()
    if status == SCAN_ILLEGAL_LENGTH and not batch.is_compressed:
        # Java has no handler for this one where records are not streamed.
        return Refusal(Errors.UNKNOWN_SERVER_ERROR, "a record length is not a varint")
    if status >= SCAN_INVALID:
        return Refusal(Errors.INVALID_RECORD, f"record {scanner.record_index} is malformed")
    return None


def _refuse_records(scanner: RecordScanner) -> Refusal | None:
    """The records that their topic does not accept, if there are any."""
    errors = scanner.errors
    if not errors:
        return None
    record_errors = tuple(RecordError(index, _explain(kind, ts)) for index, kind, ts in errors)
    if scanner.has_timestamp_error:
        error, message = Errors.INVALID_TIMESTAMP, "Records have timestamps that are not allowed."
    else:
        error, message = Errors.INVALID_RECORD, "Records lack a key, which this topic demands."
    return Refusal(error, f"{count_text(len(errors), 'record')} refused", message, record_errors)


def _explain(kind: int, timestamp: int) -> str:
    if kind == ERROR_NO_KEY:
        return "The topic is compacted and the record has no key."
    if kind == ERROR_TIMESTAMP:
        return f"Timestamp {timestamp} is too far from the time of the broker."
    return "Only the broker may set the append time."


def _accept(
    batch: RecordBatch,
    rules: AppendRules,
    now_ms: int,
    scanner: RecordScanner,
    rewriter: BatchRewriter | None,
) -> Validated | Refusal:
    is_append_time = rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    max_timestamp = now_ms if is_append_time else scanner.max_timestamp
    if rewriter is not None:
        try:
            rewritten = rewriter.finish(
                is_copy=scanner.is_canonical and scanner.is_consecutive,
                timestamp_type=rules.timestamp_type,
                max_timestamp=max_timestamp,
            )
        except RecordsError as error:
            return Refusal(Errors.UNKNOWN_SERVER_ERROR, str(error))
        if rewritten is None:
            return Refusal(Errors.MESSAGE_TOO_LARGE, "the rewritten batch is too large")
        batch = rewritten
    return Validated(
        batch=batch,
        record_count=batch.record_count,
        max_timestamp=max_timestamp,
        max_timestamp_offset_delta=0 if is_append_time else scanner.max_timestamp_offset_delta,
        timestamp_type=rules.timestamp_type,
        append_time_ms=now_ms if is_append_time else NO_TIMESTAMP,
        is_rewritten=rewriter is not None,
        expanded_bytes=HEADER_BYTES + scanner.scanned_bytes,
    )
