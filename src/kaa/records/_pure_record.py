"""One record at a time, in Python: the twin of `_kernel_record.pxi` for the pure loops."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kaa.records.errors import InvalidRecordError
from kaa.records.varint import read_varint, read_varlong

if TYPE_CHECKING:
    from kaa.records.batch import Buffer

RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, two lengths, header count: one byte each."""
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class ParsedRecord(NamedTuple):
    """Where the parts of a record lie. A negative size means null."""

    body: int
    end: int
    timestamp_delta: int
    timestamp_end: int
    offset_delta: int
    key: int
    key_bytes: int
    value: int
    value_bytes: int
    headers: int
    header_count: int


def parse_record(data: Buffer, position: int, limit: int) -> ParsedRecord:
    length, body = read_varint(data, position, limit)
    if not RECORD_BYTES_MIN - 1 <= length <= limit - body:
        raise InvalidRecordError("a record does not fit into its batch")
    end = body + length
    timestamp_delta, timestamp_end = read_varlong(data, body + 1, end)
    offset_delta, position = read_varint(data, timestamp_end, end)
    key_bytes, key = read_varint(data, position, end)
    value_bytes, value = read_varint(data, _behind(key, key_bytes, end), end)
    header_count, headers = read_varint(data, _behind(value, value_bytes, end), end)
    if header_count < 0 or header_count > end - headers:
        raise InvalidRecordError("a header count is not valid")
    if _behind_headers(data, headers, header_count, end) != end:
        raise InvalidRecordError("a record has bytes after its headers")
    return ParsedRecord(
        body,
        end,
        timestamp_delta,
        timestamp_end,
        offset_delta,
        key,
        key_bytes,
        value,
        value_bytes,
        headers,
        header_count,
    )


def read_headers(data: Buffer, record: ParsedRecord) -> list[tuple[bytes, bytes | None]]:
    headers = []
    position = record.headers
    for _ in range(record.header_count):
        key_bytes, key = read_varint(data, position, record.end)
        value_bytes, value = read_varint(data, key + key_bytes, record.end)
        position = value + max(value_bytes, 0)
        headers.append((bytes(data[key : key + key_bytes]), field(data, value, value_bytes)))
    return headers


def replace_malformed(text: bytes) -> bytes:
    """Text with U+FFFD for what is not UTF-8, as Java reads it.

    Java and Python differ in one thing: an encoded half of a surrogate pair is one malformed
    sequence to Java, and as many as it has bytes to Python. Its first byte occurs nowhere else.
    """
    return _SURROGATE.sub("\ufffd".encode(), text).decode(errors="replace").encode()


def field(data: Buffer, start: int, size: int) -> bytes | None:
    return None if size < 0 else bytes(data[start : start + size])


def check_area(records: Buffer, record_count: int) -> None:
    """A count that cannot be true is refused before anything is allocated for it."""
    if record_count < 0 or record_count > len(records) // RECORD_BYTES_MIN:
        raise InvalidRecordError("the record count does not fit the size of the batch")


def wrapping_sum(left: int, right: int) -> int:
    """As Java adds 64-bit numbers; only bad input goes over the edge."""
    return (left + right + 2**63) % 2**64 - 2**63


def _behind(start: int, size: int, limit: int) -> int:
    if size > limit - start:
        raise InvalidRecordError("a key, value or header does not fit into its record")
    return start + max(size, 0)


def _behind_headers(data: Buffer, position: int, count: int, limit: int) -> int:
    for _ in range(count):
        key_bytes, key = read_varint(data, position, limit)
        if key_bytes < 0:
            raise InvalidRecordError("a header key is null")
        value_bytes, value = read_varint(data, _behind(key, key_bytes, limit), limit)
        position = _behind(value, value_bytes, limit)
    return position
