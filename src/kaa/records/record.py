"""Records inside a batch of magic 2.

========= ======= ==============================================================================
type      bytes   field
========= ======= ==============================================================================
varint    1-5     length of everything behind this field
int8      1       attributes, unused
varlong   1-10    timestamp delta to the batch's base timestamp
varint    1-5     offset delta to the batch's base offset
varint    1-5     key length; negative: no key
...       ...     key
varint    1-5     value length; negative: no value (a tombstone on compacted topics)
...       ...     value
varint    1-5     number of headers; each is
varint    1-5         key length, then the key in UTF-8
varint    1-5         value length (negative: no value), then the value
========= ======= ==============================================================================

A record is valid when its fields fill its length exactly. A batch is valid when its records, as
many as it declares, fill it exactly. In a batch with append time, every record has the batch's
maximum timestamp, whatever its delta says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import BATCH_EXPANDED_BYTES_MAX
from kaa.records.batch import NO_SEQUENCE, TimestampType, increment_sequence
from kaa.records.compress import decompress_chunks
from kaa.records.errors import CompressionError, InvalidRecordError
from kaa.records.varint import (
    VARINT_BYTES_MAX,
    VarintShortError,
    encode_varint,
    read_varint,
    read_varlong,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaa.records.batch import Buffer, RecordBatch

Header = tuple[str, bytes | None]
"""Key and value. Bytes of a key that are no UTF-8 read as U+FFFD, as in Java."""


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
    """The records of ``batch`` in order. Compressed ones are expanded as they are asked for.

    Holds one chunk and one record at a time; a record above ``expanded_bytes_max`` is refused.
    """
    if batch.record_count < 0:
        raise InvalidRecordError(f"record count {batch.record_count} is negative")
    if batch.record_count == 0:
        return
    if batch.is_compressed:
        yield from _iter_streamed(batch, expanded_bytes_max)
    else:
        yield from _iter_contiguous(batch)


def _iter_contiguous(batch: RecordBatch) -> Iterator[Record]:
    data = batch.payload
    decode = _RecordDecoder(batch)
    position, limit = 0, len(data)
    for _ in range(batch.record_count):
        size, position = read_varint(data, position, limit)
        if not 0 <= size <= limit - position:
            raise InvalidRecordError(f"record of {size} bytes where {limit - position} are left")
        yield decode(data, position, position + size)
        position += size
    if position != limit:
        raise InvalidRecordError(f"{limit - position} bytes behind the last record")


def _iter_streamed(batch: RecordBatch, expanded_bytes_max: int) -> Iterator[Record]:
    decode = _RecordDecoder(batch)
    chunks = decompress_chunks(batch.compression_type, batch.payload)
    pending = bytearray()
    position = 0
    for _ in range(batch.record_count):
        while True:
            size, start = _pending_size(pending, position)
            if size > expanded_bytes_max:
                raise CompressionError(f"record of {size} bytes exceeds {expanded_bytes_max}")
            if 0 <= size <= len(pending) - start:
                break
            chunk = next(chunks, None)
            if chunk is None:
                raise InvalidRecordError("the data ends inside a record")
            del pending[:position]
            position = 0
            pending += chunk
        yield decode(pending, start, start + size)
        position = start + size
    if position < len(pending) or any(chunks):
        raise InvalidRecordError("data behind the last record")


def _pending_size(pending: bytearray, position: int) -> tuple[int, int]:
    """Size and start of the record at ``position``; size -1 as long as more data is needed."""
    try:
        size, start = read_varint(pending, position, len(pending))
    except VarintShortError:
        return -1, position
    if size < 0:
        raise InvalidRecordError(f"record of {size} bytes")
    return size, start


class _RecordDecoder:
    """Turns the bytes of one record, its length field left out, into a ``Record``."""

    __slots__ = ("_append_time", "_base_offset", "_base_sequence", "_base_timestamp")

    def __init__(self, batch: RecordBatch) -> None:
        self._base_offset = batch.base_offset
        self._base_timestamp = batch.base_timestamp
        self._base_sequence = batch.base_sequence
        is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
        self._append_time = batch.max_timestamp if is_append_time else None

    def __call__(self, data: Buffer, position: int, limit: int) -> Record:
        if position >= limit:
            raise InvalidRecordError("a record without content")
        timestamp_delta, position = read_varlong(data, position + 1, limit)
        offset_delta, position = read_varint(data, position, limit)
        key, position = _read_bytes(data, position, limit)
        value, position = _read_bytes(data, position, limit)
        headers, position = _read_headers(data, position, limit)
        if position != limit:
            raise InvalidRecordError(f"{limit - position} bytes behind the last field of a record")
        timestamp = self._append_time
        if timestamp is None:
            timestamp = wrap_int64(self._base_timestamp + timestamp_delta)
        sequence = NO_SEQUENCE
        if self._base_sequence >= 0:
            sequence = increment_sequence(self._base_sequence, offset_delta)
        offset = wrap_int64(self._base_offset + offset_delta)
        return Record(offset, timestamp, key, value, headers, sequence)


def wrap_int64(value: int) -> int:
    """``value`` as Java's 64-bit arithmetic leaves it; only hostile batches ever wrap."""
    if -(1 << 63) <= value < 1 << 63:
        return value
    return (value + (1 << 63) & (1 << 64) - 1) - (1 << 63)


def _read_bytes(data: Buffer, position: int, limit: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position, limit)
    if size < 0:
        return None, position
    if size > limit - position:
        raise InvalidRecordError(f"field of {size} bytes where {limit - position} are left")
    return bytes(data[position : position + size]), position + size


def _read_headers(data: Buffer, position: int, limit: int) -> tuple[tuple[Header, ...], int]:
    count, position = read_varint(data, position, limit)
    if not 0 <= count <= limit - position:
        raise InvalidRecordError(f"{count} headers where {limit - position} bytes are left")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position, limit)
        if key is None:
            raise InvalidRecordError("a header without key")
        value, position = _read_bytes(data, position, limit)
        headers.append((_decode_header_key(key), value))
    return tuple(headers), position


def _decode_header_key(key: bytes) -> str:
    """What is no UTF-8 reads as U+FFFD, as often as Java would put it."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        # Java takes an encoded surrogate for one mistake, Python for one in each byte.
        return _ENCODED_SURROGATE.sub(b"\xff", key).decode("utf-8", "replace")


_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[Header] = (),
) -> bytes:
    """One record with its length field, byte for byte as Java writes it."""
    parts: list[Buffer] = [b"\0", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    for field in (key, value):
        if field is None:
            parts.append(_NULL_LENGTH)
        else:
            parts += (encode_varint(len(field)), field)
    parts.append(encode_varint(len(headers)))
    for header_key, header_value in headers:
        encoded_key = header_key.encode()
        parts += (encode_varint(len(encoded_key)), encoded_key)
        if header_value is None:
            parts.append(_NULL_LENGTH)
        else:
            parts += (encode_varint(len(header_value)), header_value)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


_NULL_LENGTH = encode_varint(-1)

RECORD_OVERHEAD_BYTES_MAX = VARINT_BYTES_MAX + 1 + 10 + VARINT_BYTES_MAX
"""Length, attributes and both deltas at their longest: what a record costs besides its content."""
