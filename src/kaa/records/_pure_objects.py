"""Records as Python objects: the twin of `_kernel_objects.pxi`, with the same results."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from kaa.records.batch import NO_SEQUENCE, increment_sequence
from kaa.records.errors import InvalidRecordError
from kaa.records.varint import encode_varint, read_varint, read_varlong

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.records.batch import Buffer

_Record = TypeVar("_Record", bound=tuple[Any, ...])
_Header = tuple[str, bytes | None]

_INT32_MAX = 2**31 - 1
_NULL_LENGTH = encode_varint(-1)
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode_records(
    data: Buffer,
    position: int,
    count_max: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    base_sequence: int,
    record_class: type[_Record],
) -> tuple[list[_Record], int]:
    """Up to `count_max` records from `position` on, and the position after the last of them.

    Stops where a record is malformed or not whole; the caller finds out which.
    """
    records: list[_Record] = []
    limit = len(data)
    while len(records) < count_max:
        try:
            length, start = read_varint(data, position, limit)
            if not 0 < length <= limit - start:
                break
            end = start + length
            timestamp_delta, at = read_varlong(data, start + 1, end)
            offset_delta, at = read_varint(data, at, end)
            key, at = _read_bytes(data, at, end)
            value, at = _read_bytes(data, at, end)
            headers, at = _read_headers(data, at, end)
        except InvalidRecordError:
            break
        if at != end:
            break
        timestamp = append_time
        if timestamp is None:
            timestamp = wrap_int64(base_timestamp + timestamp_delta)
        sequence = NO_SEQUENCE
        if base_sequence >= 0:
            sequence = increment_sequence(base_sequence, offset_delta)
        offset = wrap_int64(base_offset + offset_delta)
        fields = (offset, timestamp, key, value, headers, sequence)
        records.append(tuple.__new__(record_class, fields))
        position = end
    return records, position


def wrap_int64(value: int) -> int:
    """`value` as Java's 64-bit arithmetic leaves it; only hostile batches ever wrap."""
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


def _read_headers(data: Buffer, position: int, limit: int) -> tuple[tuple[_Header, ...], int]:
    count, position = read_varint(data, position, limit)
    if not 0 <= count <= limit - position:
        raise InvalidRecordError(f"{count} headers where {limit - position} bytes are left")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position, limit)
        if key is None:
            raise InvalidRecordError("a header without key")
        value, position = _read_bytes(data, position, limit)
        headers.append((decode_header_key(key), value))
    return tuple(headers), position


def decode_header_key(key: bytes) -> str:
    """What is not UTF-8 reads as U+FFFD, as often as Java would put it."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        # Java takes an encoded surrogate for one mistake, Python for one in each byte.
        return _ENCODED_SURROGATE.sub(b"\xff", key).decode("utf-8", "replace")


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[_Header] = (),
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
    if len(body) > _INT32_MAX:
        raise ValueError(f"a record of {len(body)} bytes")
    return encode_varint(len(body)) + body
