"""Batches of magic 0 and 1 in old segments: Kafka 4 still reads them and never writes them.

Every entry of such a log is one message with an offset (big-endian):

| offset | bytes | field |
|---|---|---|
| 0 | 8 | offset; of a compressed entry, that of its last message |
| 8 | 4 | length of what follows |
| 12 | 4 | CRC-32 from `magic` to the end |
| 16 | 1 | magic, 0 or 1 |
| 17 | 1 | attributes: bits 0-2 codec (gzip, snappy, lz4), bit 3 timestamp type (magic 1) |
| 18 | 0, 8 | timestamp, in magic 1 only |
| ... | 4 | key length; negative: no key; then the key |
| ... | 4 | value length; negative: no value; then the value |

A compressed entry has such entries as its value. Their offsets are absolute in magic 0, in magic 1
relative to the first of them, so that the base is the entry's offset less the last inner one.
Inner messages of magic 1 take the entry's timestamp if that is an append time.

Such entries are refused in produce requests. Where they lie in a segment, a broker serves them to
consumers as they are, recovery checks them, and compaction rewrites them as magic 2
(`upgrade_batch`).
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import TYPE_CHECKING

from kaa.limits import BATCH_EXPANDED_BYTES_MAX
from kaa.model.topics import NO_TIMESTAMP
from kaa.records._codec_lz4 import read_lz4
from kaa.records._pure_objects import wrap_int64
from kaa.records.batch import (
    COMPRESSION_MASK,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_FLAG,
    CompressionType,
    RecordBatch,
    TimestampType,
)
from kaa.records.build import BatchBuilder
from kaa.records.compress import decompress_chunks
from kaa.records.errors import CompressionError, CorruptRecordsError, InvalidRecordError
from kaa.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.records.batch import Buffer

_HEADER = Struct(">qiIBB")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
# Checksum, magic, attributes and two lengths: the shortest message of magic 0.
LEGACY_LENGTH_MIN = 14


class LegacyBatch:
    """One entry inside `buffer` at `position`, with the names of `RecordBatch`."""

    __slots__ = (
        "attributes",
        "batch_length",
        "buffer",
        "crc",
        "last_offset",
        "magic",
        "max_timestamp",
        "position",
    )

    partition_leader_epoch = NO_PARTITION_LEADER_EPOCH
    producer_id = NO_PRODUCER_ID
    producer_epoch = NO_PRODUCER_EPOCH
    base_sequence = NO_SEQUENCE
    last_sequence = NO_SEQUENCE
    has_producer_id = False
    is_transactional = False
    is_control = False
    has_delete_horizon = False
    delete_horizon_ms = None

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        available = len(buffer) - position
        if available < _HEADER.size:
            raise CorruptRecordsError(f"{available} bytes cannot hold a message header")
        self.last_offset: int
        self.batch_length: int
        self.crc: int
        self.magic: int
        self.attributes: int
        self.last_offset, self.batch_length, self.crc, self.magic, self.attributes = (
            _HEADER.unpack_from(buffer, position)
        )
        size = self.batch_length + LOG_OVERHEAD_BYTES
        if self.batch_length < LEGACY_LENGTH_MIN or size > available:
            raise CorruptRecordsError(f"message size {size} where {available} bytes are left")
        if self.magic > 1:
            raise CorruptRecordsError(f"magic {self.magic} is not 0 or 1")
        self.buffer = buffer
        self.position = position
        self.max_timestamp: int = NO_TIMESTAMP
        if self.magic == 1:
            self.max_timestamp = _INT64.unpack_from(buffer, position + _HEADER.size)[0]

    @property
    def size_in_bytes(self) -> int:
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def end(self) -> int:
        """Position in the buffer right after this entry."""
        return self.position + self.size_in_bytes

    @property
    def view(self) -> memoryview:
        return memoryview(self.buffer)[self.position : self.end]

    @property
    def base_offset(self) -> int:
        """Offset of the first message. A compressed entry must be expanded to know it."""
        return next(iter_legacy_records(self)).offset if self.is_compressed else self.last_offset

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def compression_type(self) -> CompressionType:
        codec = self.attributes & COMPRESSION_MASK
        if codec > CompressionType.ZSTD:
            raise CorruptRecordsError(f"unknown compression type id {codec}")
        return CompressionType(codec)

    @property
    def is_compressed(self) -> bool:
        return self.attributes & COMPRESSION_MASK != 0

    @property
    def timestamp_type(self) -> TimestampType | None:
        """None in magic 0, which has no timestamps."""
        if self.magic == 0:
            return None
        return TimestampType(bool(self.attributes & TIMESTAMP_TYPE_FLAG))

    def is_valid_crc(self) -> bool:
        data = memoryview(self.buffer)[self.position + MAGIC_POSITION : self.end]
        return self.crc == zlib.crc32(data)


def iter_any_batches(
    buffer: Buffer, position: int = 0, limit: int | None = None
) -> Iterator[RecordBatch | LegacyBatch]:
    """The whole batches of any magic; stops cleanly at a partial one at the end."""
    end = len(buffer) if limit is None else limit
    while end - position > MAGIC_POSITION:
        length: int = _INT32.unpack_from(buffer, position + 8)[0]
        if length < LEGACY_LENGTH_MIN:
            raise CorruptRecordsError(f"batch length {length} is below that of any batch")
        if end - position < length + LOG_OVERHEAD_BYTES:
            return
        is_legacy = buffer[position + MAGIC_POSITION] < 2
        yield LegacyBatch(buffer, position) if is_legacy else RecordBatch(buffer, position)
        position += length + LOG_OVERHEAD_BYTES


def iter_legacy_records(
    batch: LegacyBatch, expanded_bytes_max: int = BATCH_EXPANDED_BYTES_MAX
) -> Iterator[Record]:
    """The messages of one entry in order; a compressed entry is expanded as a whole."""
    if not batch.is_compressed:
        yield _read_message(batch, batch.last_offset, None)
        return
    inner = list(_iter_inner(_expand(batch, expanded_bytes_max)))
    if not inner:
        raise InvalidRecordError("a compressed message without messages")
    base_offset = 0
    if batch.magic == 1 and batch.last_offset != 0:
        if batch.last_offset < inner[-1].last_offset:
            raise InvalidRecordError("an inner offset above that of the compressed message")
        base_offset = batch.last_offset - inner[-1].last_offset
    for message in inner:
        if message.is_compressed:
            raise InvalidRecordError("a compressed message inside a compressed message")
        yield _read_message(message, wrap_int64(base_offset + message.last_offset), batch)


def _iter_inner(data: Buffer) -> Iterator[LegacyBatch]:
    position = 0
    while len(data) - position >= LOG_OVERHEAD_BYTES:
        length: int = _INT32.unpack_from(data, position + 8)[0]
        if length < LEGACY_LENGTH_MIN:
            raise CorruptRecordsError(f"message length {length} is below that of any message")
        if len(data) - position < length + LOG_OVERHEAD_BYTES:
            return
        yield LegacyBatch(data, position)
        position += length + LOG_OVERHEAD_BYTES


def _expand(batch: LegacyBatch, expanded_bytes_max: int) -> bytes:
    codec = batch.compression_type
    if codec is CompressionType.ZSTD:
        raise InvalidRecordError("zstd is unknown to magic 0 and 1")
    _, value = _key_and_value(batch)
    if value is None:
        raise InvalidRecordError("a compressed message without value")
    if codec is CompressionType.LZ4:
        chunks = read_lz4(value, checks_header=batch.magic == 1)
    else:
        chunks = decompress_chunks(codec, value)
    parts = []
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > expanded_bytes_max:
            raise CompressionError(f"message set expands beyond {expanded_bytes_max} bytes")
        parts.append(bytes(chunk))
    return b"".join(parts)


def _read_message(message: LegacyBatch, offset: int, wrapper: LegacyBatch | None) -> Record:
    key, value = _key_and_value(message)
    timestamp = message.max_timestamp
    is_append_time = wrapper and wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME
    if wrapper is not None and is_append_time and message.magic == 1:
        timestamp = wrapper.max_timestamp
    return Record(
        offset,
        timestamp,
        None if key is None else bytes(key),
        None if value is None else bytes(value),
    )


def _key_and_value(message: LegacyBatch) -> tuple[memoryview | None, memoryview | None]:
    data = message.view
    position = _HEADER.size + (8 if message.magic == 1 else 0)
    fields: list[memoryview | None] = []
    for _ in range(2):
        if len(data) - position < _INT32.size:
            raise InvalidRecordError("a message ends inside a length")
        size: int = _INT32.unpack_from(data, position)[0]
        position += _INT32.size
        if size > len(data) - position:
            raise InvalidRecordError(f"field of {size} bytes where {len(data) - position} are left")
        fields.append(None if size < 0 else data[position : position + size])
        position += max(0, size)
    return fields[0], fields[1]


def upgrade_batch(batch: LegacyBatch) -> bytearray:
    """The same records as a batch of magic 2 with the same codec, as Kafka's cleaner writes it."""
    records = list(iter_legacy_records(batch))
    timestamp_type = batch.timestamp_type or TimestampType.CREATE_TIME
    builder = BatchBuilder(
        base_offset=records[0].offset,
        compression_type=batch.compression_type,
        timestamp_type=timestamp_type,
        append_time_ms=batch.max_timestamp,
    )
    for record in records:
        if record.timestamp < NO_TIMESTAMP or record.offset <= builder.last_offset:
            raise InvalidRecordError("a timestamp or an offset that magic 2 cannot hold")
        builder.append(record.timestamp, record.key, record.value, offset=record.offset)
    return builder.build()


def iter_upgraded_batches(buffer: Buffer) -> Iterator[RecordBatch]:
    """The whole batches of any magic, old ones as batches of magic 2."""
    for batch in iter_any_batches(buffer):
        yield RecordBatch(upgrade_batch(batch)) if isinstance(batch, LegacyBatch) else batch
