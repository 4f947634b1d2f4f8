"""Record batches of magic 2, read and patched where they lie.

A log, a produce request and a fetch answer are the same thing: batches one after the other.
Every integer is big-endian.

| offset | bytes | field | meaning |
|---|---|---|---|
| 0 | 8 | baseOffset | offset of the first record; assigned by the leader |
| 8 | 4 | batchLength | bytes that follow this field (the whole batch has 12 more) |
| 12 | 4 | partitionLeaderEpoch | assigned by the leader; -1 from clients |
| 16 | 1 | magic | 2; 0 and 1 are older formats (`kaa.records.legacy`) |
| 17 | 4 | crc | CRC-32C (Castagnoli) from `attributes` to the end |
| 21 | 2 | attributes | bits 0-2 codec, 3 time type, 4 transactional, 5 control, 6 delete horizon |
| 23 | 4 | lastOffsetDelta | last offset = base offset + this; survives compaction |
| 27 | 8 | baseTimestamp | record timestamps are deltas to it; the delete horizon if bit 6 |
| 35 | 8 | maxTimestamp | the greatest record timestamp, or the append time if bit 3 |
| 43 | 8 | producerId | -1: not idempotent |
| 51 | 2 | producerEpoch |  |
| 53 | 4 | baseSequence | of the first record; -1: none |
| 57 | 4 | recordCount |  |
| 61 | ... | records | that many records (`kaa.records.record`), one stream if compressed |

Base offset and leader epoch lie before the checksummed part, so that a leader assigns both
without touching the checksum. `maxTimestamp` and `attributes` lie inside: changing them
(append time) means a new checksum.

A view is valid when its size is at least the 61 bytes of the header and the buffer holds all of
it. Whether the checksum fits is asked separately, so that nobody pays for it twice.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING

from kaa.records.checksum import crc32c
from kaa.records.errors import CorruptRecordsError

if TYPE_CHECKING:
    from collections.abc import Iterator

Buffer = bytes | bytearray | memoryview

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1

MAGIC_V2 = 2
LOG_OVERHEAD_BYTES = 12
"""Base offset and batch length, common to every magic and not counted by `batchLength`."""
HEADER_BYTES = 61
"""Size of a batch of magic 2 without records."""

MAGIC_POSITION = 16
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
LAST_OFFSET_DELTA_POSITION = 23
BASE_TIMESTAMP_POSITION = 27
MAX_TIMESTAMP_POSITION = 35

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

HEADER = Struct(">qiibIhiqqqhii")
LOG_OVERHEAD = Struct(">qi")
_PLACE = Struct(">qii")
_INT64 = Struct(">q")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")
_INT16 = Struct(">h")

SEQUENCE_MAX = 2**31 - 1


class CompressionType(IntEnum):
    """The codec of a batch, in bits 0 to 2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """Whose clock the timestamps of a batch come from, in bit 3 of its attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


# Looked up by index: calling an enum costs ten times as much.
_COMPRESSION_TYPES = tuple(CompressionType)
_TIMESTAMP_TYPES = tuple(TimestampType)


def increment_sequence(sequence: int, increment: int) -> int:
    """The sequence `increment` records after `sequence`: after 2^31 - 1 comes 0."""
    result = sequence + increment
    return result - SEQUENCE_MAX - 1 if result > SEQUENCE_MAX else result


def decrement_sequence(sequence: int, decrement: int) -> int:
    """The sequence `decrement` records before `sequence`: before 0 comes 2^31 - 1."""
    result = sequence - decrement
    return result + SEQUENCE_MAX + 1 if result < 0 else result


class RecordBatch:
    """One batch of magic 2 inside `buffer`, from `position`. Holds the buffer, copies nothing.

    The header is unpacked once; the `set_*` methods write to the buffer and to the fields.
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "buffer",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        available = len(buffer) - position
        if available < HEADER_BYTES:
            raise CorruptRecordsError(f"{available} bytes cannot hold a batch header")
        self.buffer = buffer
        self.position = position
        (
            self.base_offset,
            self.batch_length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(buffer, position)
        size = self.batch_length + LOG_OVERHEAD_BYTES
        if not HEADER_BYTES <= size <= available:
            raise CorruptRecordsError(
                f"batch size {size} is not within {HEADER_BYTES}..{available}"
            )
        if self.magic != MAGIC_V2:
            raise CorruptRecordsError(f"magic {self.magic} is not {MAGIC_V2}")

    # --- extent

    @property
    def size_in_bytes(self) -> int:
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def end(self) -> int:
        """Position in the buffer right after this batch."""
        return self.position + self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def view(self) -> memoryview:
        """The whole batch."""
        return memoryview(self.buffer)[self.position : self.end]

    @property
    def payload(self) -> memoryview:
        """What follows the header: the records, compressed or not."""
        return memoryview(self.buffer)[self.position + HEADER_BYTES : self.end]

    # --- offsets and sequences

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    # --- attributes

    @property
    def compression_type(self) -> CompressionType:
        codec = self.attributes & COMPRESSION_MASK
        if codec > CompressionType.ZSTD:
            raise CorruptRecordsError(f"unknown compression type id {codec}")
        return _COMPRESSION_TYPES[codec]

    @property
    def is_compressed(self) -> bool:
        return self.attributes & COMPRESSION_MASK != 0

    @property
    def timestamp_type(self) -> TimestampType:
        return _TIMESTAMP_TYPES[self.attributes >> 3 & 1]

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers of this batch may go: base timestamp, if bit 6 says so."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    # --- checksum

    def compute_crc(self) -> int:
        return crc32c(memoryview(self.buffer)[self.position + ATTRIBUTES_POSITION : self.end])

    def is_valid_crc(self) -> bool:
        return self.crc == self.compute_crc()

    def ensure_valid(self) -> None:
        computed = self.compute_crc()
        if self.crc != computed:
            raise CorruptRecordsError(f"stored crc {self.crc} is not the computed {computed}")

    # --- patching in place

    def place(self, base_offset: int, partition_leader_epoch: int) -> None:
        """Gives the batch its place in a log: both lie before what is checksummed."""
        place = (base_offset, self.batch_length, partition_leader_epoch)
        _PLACE.pack_into(self._writable(), self.position, *place)
        self.base_offset = base_offset
        self.partition_leader_epoch = partition_leader_epoch

    def set_base_offset(self, base_offset: int) -> None:
        _INT64.pack_into(self._writable(), self.position, base_offset)
        self.base_offset = base_offset

    def set_max_timestamp(self, timestamp_type: TimestampType, max_timestamp: int) -> None:
        """Sets both and the checksum with them; leaves a batch alone that already says so."""
        if self.max_timestamp == max_timestamp and self.timestamp_type is timestamp_type:
            return
        attributes = self.attributes & 0x77 | timestamp_type << 3
        buffer = self._writable()
        _INT16.pack_into(buffer, self.position + ATTRIBUTES_POSITION, attributes)
        _INT64.pack_into(buffer, self.position + MAX_TIMESTAMP_POSITION, max_timestamp)
        self.attributes = attributes
        self.max_timestamp = max_timestamp
        self.crc = self.compute_crc()
        _UINT32.pack_into(buffer, self.position + CRC_POSITION, self.crc)

    def _writable(self) -> bytearray | memoryview:
        if isinstance(self.buffer, bytes):
            raise TypeError("a batch over bytes cannot be changed in place")
        return self.buffer

    def __repr__(self) -> str:
        return (
            f"RecordBatch(offsets=[{self.base_offset}, {self.last_offset}], "
            f"records={self.record_count}, size={self.size_in_bytes}, "
            f"codec={self.attributes & COMPRESSION_MASK}, "
            f"producer={self.producer_id}/{self.producer_epoch}, sequence={self.base_sequence})"
        )


def iter_batches(
    buffer: Buffer, position: int = 0, limit: int | None = None
) -> Iterator[RecordBatch]:
    """The whole batches from `position` to `limit`; stops cleanly at a partial one at the end.

    Raises CorruptRecordsError at a size no batch can have and at a magic other than 2.
    """
    end = len(buffer) if limit is None else limit
    while end - position >= LOG_OVERHEAD_BYTES:
        length = _INT32.unpack_from(buffer, position + 8)[0]
        if length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
            raise CorruptRecordsError(f"batch length {length} is below that of an empty batch")
        if end - position < length + LOG_OVERHEAD_BYTES:
            return
        yield RecordBatch(buffer, position)
        position += length + LOG_OVERHEAD_BYTES
