"""Records inside a batch of magic 2.

| type | bytes | field |
|---|---|---|
| varint | 1-5 | length of everything after this field |
| int8 | 1 | attributes, unused |
| varlong | 1-10 | timestamp delta to the batch's base timestamp |
| varint | 1-5 | offset delta to the batch's base offset |
| varint | 1-5 | key length; negative: no key |
| ... | ... | key |
| varint | 1-5 | value length; negative: no value (a tombstone on compacted topics) |
| ... | ... | value |
| varint | 1-5 | number of headers; each is |
| varint | 1-5 | key length, then the key in UTF-8 |
| varint | 1-5 | value length (negative: no value), then the value |

A record is valid when its fields fill its length exactly. A batch is valid when its records, as
many as it declares, fill it exactly. In a batch with append time, every record has the batch's
maximum timestamp, whatever its delta says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import BATCH_EXPANDED_BYTES_MAX, RECORDS_DECODED_AT_ONCE
from kaa.records.batch import NO_SEQUENCE, TimestampType
from kaa.records.compress import decompress_chunks
from kaa.records.errors import CompressionError, InvalidRecordError
from kaa.records.kernel import decode_records, encode_record
from kaa.records.varint import VarintShortError, read_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.records.batch import Buffer, RecordBatch

__all__ = ["Header", "Record", "encode_record", "iter_records"]

Header = tuple[str, bytes | None]
"""Key and value. Bytes of a key that are not UTF-8 read as U+FFFD, as in Java."""


class Record(NamedTuple):
    """One record with absolute offset and timestamp; what it holds is copied out of the batch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    sequence: int = NO_SEQUENCE


def iter_records(
    batch: RecordBatch, expanded_bytes_max: int = BATCH_EXPANDED_BYTES_MAX
) -> Iterator[Record]:
    """The records of `batch` in order. Compressed ones are expanded as they are asked for.

    Holds one chunk or one record at a time, and what was decoded of it; a record that goes beyond
    its chunk and beyond `expanded_bytes_max` is refused.
    """
    if batch.record_count < 0:
        raise InvalidRecordError(f"record count {batch.record_count} is negative")
    if batch.record_count == 0:
        return
    if batch.is_compressed:
        yield from _iter_streamed(batch, expanded_bytes_max)
    else:
        yield from _iter_contiguous(batch)


def _decode(batch: RecordBatch, data: Buffer, position: int, left: int) -> tuple[list[Record], int]:
    """The next few of `left` records, as far as they are whole and well-formed."""
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return decode_records(
        data,
        position,
        min(left, RECORDS_DECODED_AT_ONCE),
        batch.base_offset,
        batch.base_timestamp,
        batch.max_timestamp if is_append_time else None,
        batch.base_sequence,
        Record,
    )


def _iter_contiguous(batch: RecordBatch) -> Iterator[Record]:
    data = batch.payload
    position = 0
    left = batch.record_count
    while left > 0:
        records, position = _decode(batch, data, position, left)
        if not records:
            raise InvalidRecordError(f"record {batch.record_count - left} is malformed")
        yield from records
        left -= len(records)
    if position != len(data):
        raise InvalidRecordError(f"{len(data) - position} bytes after the last record")


def _iter_streamed(batch: RecordBatch, expanded_bytes_max: int) -> Iterator[Record]:
    chunks = decompress_chunks(batch.compression_type, batch.payload)
    pending = bytearray()
    position = 0
    left = batch.record_count
    while left > 0:
        records, position = _decode(batch, pending, position, left)
        yield from records
        left -= len(records)
        if records:
            continue
        missing = _missing_bytes(pending, position, expanded_bytes_max)
        del pending[:position]
        position = 0
        while missing > 0:
            chunk = next(chunks, None)
            if chunk is None:
                raise InvalidRecordError("the data ends inside a record")
            pending += chunk
            missing -= len(chunk)
    if position < len(pending) or any(chunks):
        raise InvalidRecordError("data after the last record")


def _missing_bytes(pending: bytearray, position: int, size_max: int) -> int:
    """How many bytes the record at `position` lacks at least; whole ones are malformed here."""
    try:
        size, start = read_varint(pending, position, len(pending))
    except VarintShortError:
        return 1
    if size > size_max:
        raise CompressionError(f"record of {size} bytes exceeds {size_max}")
    if size <= len(pending) - start:
        raise InvalidRecordError(f"record of {size} bytes is malformed")
    return size - (len(pending) - start)
