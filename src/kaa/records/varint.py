"""Zig-zag varints of records, the Python form of `_kernel_varint.pxi`.

Seven bits per byte, lowest bits first; a set high bit says that more bytes follow. A varint has at
most 5 bytes and 32 bits, a varlong at most 10 bytes and 64 bits; bits of the last byte beyond that
are dropped, as Java drops them. Small magnitudes of either sign are short: 0, -1, 1, -2 are stored
as 0, 1, 2, 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.records.errors import InvalidRecordError

if TYPE_CHECKING:
    from kaa.records.batch import Buffer

VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10


class VarintShortError(InvalidRecordError):
    """The bytes end inside a varint."""


class VarintLongError(InvalidRecordError):
    """A varint does not end where the longest one must."""


def read_varint(data: Buffer, position: int, limit: int) -> tuple[int, int]:
    """The value at `position` and the position after it; reads nothing at `limit`."""
    if position < limit and data[position] < 0x80:
        raw = data[position]
        return (raw >> 1) ^ -(raw & 1), position + 1
    raw, position = _read_unsigned(data, position, limit, VARINT_BYTES_MAX)
    raw &= 0xFFFFFFFF
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(data: Buffer, position: int, limit: int) -> tuple[int, int]:
    """As `read_varint`, for 64 bits."""
    if position < limit and data[position] < 0x80:
        raw = data[position]
        return (raw >> 1) ^ -(raw & 1), position + 1
    raw, position = _read_unsigned(data, position, limit, VARLONG_BYTES_MAX)
    raw &= 0xFFFFFFFFFFFFFFFF
    return (raw >> 1) ^ -(raw & 1), position


def _read_unsigned(data: Buffer, position: int, limit: int, bytes_max: int) -> tuple[int, int]:
    raw = 0
    for shift in range(0, 7 * bytes_max, 7):
        if position >= limit:
            raise VarintShortError("the data ends inside a varint")
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, position
    raise VarintLongError(f"a varint of more than {bytes_max} bytes")


def encode_varint(value: int) -> bytes:
    """The shortest form of `value`; the same for varint and varlong."""
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    if raw < 0x80:
        return _ONE_BYTE[raw]
    parts = bytearray()
    while raw >= 0x80:
        parts.append(raw & 0x7F | 0x80)
        raw >>= 7
    parts.append(raw)
    return bytes(parts)


_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))


def varint_size(value: int) -> int:
    """Bytes of the shortest form of `value`."""
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    return max(1, (raw.bit_length() + 6) // 7)
