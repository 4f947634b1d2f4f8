"""Builds batches of magic 2 (byte table in `kaa.records.batch`), as Java's builder writes them.

Uncompressed batches are equal to Java's byte for byte, compressed ones expand to the same bytes.
The base timestamp is that of the first record, or the delete horizon where there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.limits import DECOMPRESSION_CHUNK_BYTES
from kaa.model.topics import NO_TIMESTAMP
from kaa.records.batch import (
    ATTRIBUTES_POSITION,
    CONTROL_FLAG,
    CRC_POSITION,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    CompressionType,
    TimestampType,
)
from kaa.records.checksum import crc32c
from kaa.records.compress import compressor
from kaa.records.record import encode_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaa.records.batch import Buffer
    from kaa.records.record import Header

_INT32_MAX = 2**31 - 1


class BatchBuilder:
    """One batch being filled. Wrong use, such as offsets that do not rise, is a ValueError."""

    def __init__(
        self,
        *,
        compression_type: CompressionType = CompressionType.NONE,
        compression_level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        append_time_ms: int = NO_TIMESTAMP,
        base_offset: int = 0,
        partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
        delete_horizon_ms: int | None = None,
    ) -> None:
        self.compression_type = compression_type
        self.timestamp_type = timestamp_type
        self.append_time_ms = append_time_ms
        self.base_offset = base_offset
        self.partition_leader_epoch = partition_leader_epoch
        self.is_control = is_control
        self.delete_horizon_ms = delete_horizon_ms
        self.set_producer_state(producer_id, producer_epoch, base_sequence, is_transactional)
        self.record_count = 0
        self.last_offset = base_offset - 1
        self.base_timestamp = delete_horizon_ms
        self.max_timestamp = NO_TIMESTAMP
        # Size of the batch if nothing could be compressed.
        self.size_in_bytes = HEADER_BYTES
        self._stream = compressor(compression_type, compression_level)
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._written: list[bytes] = []

    def set_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        """An idempotent producer knows its sequence only when a batch leaves."""
        if is_transactional and producer_id == NO_PRODUCER_ID:
            raise ValueError("a transactional batch needs a producer id")
        if producer_id != NO_PRODUCER_ID:
            if producer_epoch < 0:
                raise ValueError(f"producer epoch {producer_epoch} is negative")
            if base_sequence < 0 and not self.is_control:
                raise ValueError(f"base sequence {base_sequence} is negative")
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional

    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header] = (),
        offset: int | None = None,
    ) -> int:
        """Adds one record, at the next offset unless given another, and returns its size."""
        if offset is None:
            offset = self.last_offset + 1
        elif offset <= self.last_offset:
            raise ValueError(f"offset {offset} does not follow {self.last_offset}")
        if timestamp < NO_TIMESTAMP:
            raise ValueError(f"timestamp {timestamp} is negative")
        if offset - self.base_offset > _INT32_MAX:
            raise ValueError(f"offset {offset} is too far from base offset {self.base_offset}")
        if self.base_timestamp is None:
            self.base_timestamp = timestamp
        record = encode_record(
            offset - self.base_offset, timestamp - self.base_timestamp, key, value, headers
        )
        self.record_count += 1
        self.last_offset = offset
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.size_in_bytes += len(record)
        self._pending.append(record)
        self._pending_bytes += len(record)
        if self._pending_bytes >= DECOMPRESSION_CHUNK_BYTES:
            self._compress_pending()
        return len(record)

    def _compress_pending(self) -> None:
        self._written.append(self._stream.write(b"".join(self._pending)))
        self._pending.clear()
        self._pending_bytes = 0

    def build(self, last_offset: int | None = None) -> bytearray:
        """The finished batch, once; nothing if there are no records.

        `last_offset` keeps the end of a batch whose last records were removed by compaction.
        """
        if self.record_count == 0 or self.base_timestamp is None:
            return bytearray()
        self._compress_pending()
        self._written.append(self._stream.finish())
        is_append_time = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        end = self.last_offset if last_offset is None else last_offset
        return assemble_batch(
            self._written,
            base_offset=self.base_offset,
            partition_leader_epoch=self.partition_leader_epoch,
            attributes=batch_attributes(
                self.compression_type,
                self.timestamp_type,
                is_transactional=self.is_transactional,
                is_control=self.is_control,
                has_delete_horizon=self.delete_horizon_ms is not None,
            ),
            last_offset_delta=end - self.base_offset,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.append_time_ms if is_append_time else self.max_timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            record_count=self.record_count,
        )


def batch_attributes(
    compression_type: CompressionType,
    timestamp_type: TimestampType,
    *,
    is_transactional: bool = False,
    is_control: bool = False,
    has_delete_horizon: bool = False,
) -> int:
    return (
        compression_type
        | timestamp_type << 3
        | (TRANSACTIONAL_FLAG if is_transactional else 0)
        | (CONTROL_FLAG if is_control else 0)
        | (DELETE_HORIZON_FLAG if has_delete_horizon else 0)
    )


def assemble_batch(
    payload: Iterable[Buffer],
    *,
    base_offset: int,
    partition_leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> bytearray:
    """Header, payload (encoded and compressed records) and checksum in one writable buffer."""
    batch = bytearray(HEADER_BYTES)
    for part in payload:
        batch += part
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD_BYTES,
        partition_leader_epoch,
        MAGIC_V2,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    checksum = crc32c(memoryview(batch)[ATTRIBUTES_POSITION:])
    batch[CRC_POSITION:ATTRIBUTES_POSITION] = checksum.to_bytes(4, "big")
    return batch
