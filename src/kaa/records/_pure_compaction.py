"""The loops of log compaction in Python: the twin of `_kernel_compaction.pxi`.

The table of the offset map is the same byte for byte: the same hash, the same slots.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kaa.records._pure_record import INT64_MAX, check_area, parse_record, wrapping_sum
from kaa.records.errors import InvalidRecordError
from kaa.records.varint import encode_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.records._pure_record import ParsedRecord
    from kaa.records.batch import Buffer

SLOT_BYTES = 24
RECORD_HAS_KEY = 1
RECORD_HAS_VALUE = 2
RECORD_IS_LATEST = 4
RECORD_IS_BEHIND_MAP = 8

_SLOT = Struct("=QQq")
_SEED = Struct("=QQ")
_MASK = 2**64 - 1


def siphash(seed: bytes, key: bytes) -> tuple[int, int]:
    """SipHash-2-4-128 of `key` as two 64-bit halves."""
    low, high = _SEED.unpack(seed)
    state = (
        low ^ 0x736F6D6570736575,
        high ^ 0x646F72616E646F6D ^ 0xEE,
        low ^ 0x6C7967656E657261,
        high ^ 0x7465646279746573,
    )
    whole = len(key) & ~7
    for index in range(0, whole, 8):
        state = _sip_word(state, int.from_bytes(key[index : index + 8], "little"))
    last = int.from_bytes(key[whole:], "little") | len(key) << 56 & _MASK
    v0, v1, v2, v3 = _sip_word(state, last)
    v0, v1, v2, v3 = _sip_rounds((v0, v1, v2 ^ 0xEE, v3), 4)
    first_half = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = _sip_rounds((v0, v1 ^ 0xDD, v2, v3), 4)
    return first_half, v0 ^ v1 ^ v2 ^ v3


def _sip_word(state: tuple[int, int, int, int], word: int) -> tuple[int, int, int, int]:
    v0, v1, v2, v3 = state
    v0, v1, v2, v3 = _sip_rounds((v0, v1, v2, v3 ^ word), 2)
    return v0 ^ word, v1, v2, v3


def _sip_rounds(state: tuple[int, int, int, int], rounds: int) -> tuple[int, int, int, int]:
    v0, v1, v2, v3 = state
    for _ in range(rounds):
        v0 = v0 + v1 & _MASK
        v1 = (v1 << 13 & _MASK | v1 >> 51) ^ v0
        v0 = v0 << 32 & _MASK | v0 >> 32
        v2 = v2 + v3 & _MASK
        v3 = (v3 << 16 & _MASK | v3 >> 48) ^ v2
        v0 = v0 + v3 & _MASK
        v3 = (v3 << 21 & _MASK | v3 >> 43) ^ v0
        v2 = v2 + v1 & _MASK
        v1 = (v1 << 17 & _MASK | v1 >> 47) ^ v2
        v2 = v2 << 32 & _MASK | v2 >> 32
    return v0, v1, v2, v3


def _find_slot(table: bytearray, seed: bytes, key: bytes) -> tuple[int, int, int, int]:
    """Position of the slot of a key, its hash, and the latest offset + 1 (0: not there)."""
    low, high = siphash(seed, key)
    slots = len(table) // SLOT_BYTES
    index = low * slots >> 64
    while True:
        slot_low, slot_high, next_offset = _SLOT.unpack_from(table, index * SLOT_BYTES)
        if next_offset == 0 or (slot_low == low and slot_high == high):
            return index * SLOT_BYTES, low, high, next_offset
        index = (index + 1) % slots


def offset_table(size: int) -> bytearray:
    """An empty table of so many bytes."""
    return bytearray(size)


def _check_table(table: bytearray, seed: bytes) -> None:
    if len(seed) != _SEED.size:
        raise ValueError("a seed has 16 bytes")
    if len(table) < SLOT_BYTES:
        raise InvalidRecordError("an offset map has at least one slot")


def _iter_area(records: Buffer, record_count: int) -> Iterator[tuple[int, ParsedRecord]]:
    """The start and the parts of each record; an error if they do not fill the area exactly."""
    check_area(records, record_count)
    position = 0
    for _ in range(record_count):
        record = parse_record(records, position, len(records))
        yield position, record
        position = record.end
    if record_count > 0 and position != len(records):
        raise InvalidRecordError("a batch has bytes after its records")


def offset_map_scan(
    table: bytearray,
    seed: bytes,
    size: int,
    size_max: int,
    records: Buffer,
    record_count: int,
    base_offset: int,
    start_offset: int,
) -> tuple[int, int, bool]:
    """Puts each key from `start_offset` on; returns (size, latest offset put or -1, is full)."""
    _check_table(table, seed)
    start_offset = max(start_offset, 0)
    size_max = min(size_max, len(table) // SLOT_BYTES - 1)
    latest_offset = -1
    for _, record in _iter_area(records, record_count):
        offset = wrapping_sum(base_offset, record.offset_delta)
        if record.key_bytes < 0 or offset < start_offset or offset == INT64_MAX:
            continue
        if size >= size_max:
            return size, latest_offset, True
        key = bytes(records[record.key : record.key + record.key_bytes])
        slot, low, high, next_offset = _find_slot(table, seed, key)
        if next_offset == 0:
            size += 1
        _SLOT.pack_into(table, slot, low, high, offset + 1)
        latest_offset = offset
    return size, latest_offset, False


def offset_map_flags(
    table: bytearray,
    seed: bytes,
    records: Buffer,
    record_count: int,
    base_offset: int,
    latest_offset: int,
) -> bytearray:
    """One flag byte per record."""
    _check_table(table, seed)
    flags = bytearray()
    for _, record in _iter_area(records, record_count):
        offset = wrapping_sum(base_offset, record.offset_delta)
        flag = RECORD_HAS_VALUE if record.value_bytes >= 0 else 0
        if record.key_bytes >= 0:
            flag |= RECORD_HAS_KEY
            key = bytes(records[record.key : record.key + record.key_bytes])
            if offset >= _find_slot(table, seed, key)[3] - 1:
                flag |= RECORD_IS_LATEST
        if offset > latest_offset:
            flag |= RECORD_IS_BEHIND_MAP
        flags.append(flag)
    return flags


def offset_map_get(table: bytearray, seed: bytes, key: Buffer) -> int:
    """The latest offset of a key, or -1."""
    _check_table(table, seed)
    return _find_slot(table, seed, bytes(key))[3] - 1


def retain_records(
    records: Buffer,
    record_count: int,
    keep: Buffer,
    base_timestamp: int,
    append_time: int | None,
    new_base_timestamp: int | None,
) -> tuple[bytearray, int, int, int]:
    """The record area with only the records whose `keep` byte is not 0.

    Returns (records, record count, base timestamp, max timestamp). Timestamp deltas refer to the
    new base timestamp, by default that of the first record kept.
    """
    check_area(records, record_count)
    if len(keep) < record_count:
        raise InvalidRecordError("a buffer is shorter than its rows need")
    out = bytearray()
    kept = 0
    max_timestamp = -1
    for index, (start, record) in enumerate(_iter_area(records, record_count)):
        if not keep[index]:
            continue
        timestamp = append_time
        if timestamp is None:
            timestamp = wrapping_sum(base_timestamp, record.timestamp_delta)
        if new_base_timestamp is None:
            new_base_timestamp = timestamp
        max_timestamp = timestamp if kept == 0 else max(max_timestamp, timestamp)
        kept += 1
        delta = wrapping_sum(timestamp, -new_base_timestamp)
        if delta == record.timestamp_delta:
            out += records[start : record.end]
        else:
            body = bytes(records[record.body : record.body + 1]) + encode_varint(delta)
            body += bytes(records[record.timestamp_end : record.end])
            out += encode_varint(len(body)) + body
    return out, kept, -1 if new_base_timestamp is None else new_base_timestamp, max_timestamp
