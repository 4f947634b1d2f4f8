"""Lookups in the indexes of a remote segment, which are small and come whole.

The formats are those of the local files (`kaa.log.index`, `kaa.log.transaction_index`). An index
that a JVM broker copied may end in zeros, which are not entries.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.log.transaction_index import AbortedTransaction
from kaa.tier.store.layout import Part
from kaa.tier.store.segments import DamagedObjectError

if TYPE_CHECKING:
    from collections.abc import Sequence

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_TXN_ENTRY: Final = Struct(">hqqqq")
ENTRY_BYTES: Final = {
    Part.OFFSET_INDEX: _OFFSET_ENTRY.size,
    Part.TIME_INDEX: _TIME_ENTRY.size,
    Part.TXN_INDEX: _TXN_ENTRY.size,
}


def position_of(index: bytes, base_offset: int, offset: int) -> int:
    """Where to begin looking for the batch with `offset`."""
    return _last_not_above(index, _OFFSET_ENTRY, offset - base_offset)[1]


def bytes_of_offsets(
    index: bytes, base_offset: int, start: int, end: int, size: int
) -> tuple[int, int]:
    """Where whole batches begin and end that hold the offsets from `start` up to `end`, in a log of
    `size` bytes. An entry has the last offset of the batch at its position.
    """
    begin = position_of(index, base_offset, start)
    low, high = 0, len(index) // _OFFSET_ENTRY.size
    while low < high:
        middle = (low + high) // 2
        relative, position = _OFFSET_ENTRY.unpack_from(index, middle * _OFFSET_ENTRY.size)
        is_padding = middle > 0 and (relative, position) == (0, 0)
        if is_padding or relative >= end - 1 - base_offset:
            high = middle
        else:
            low = middle + 1
    # The batch of the first entry at or after the last offset may still hold some; the next not.
    place = (low + 1) * _OFFSET_ENTRY.size
    if place + _OFFSET_ENTRY.size <= len(index):
        after = _OFFSET_ENTRY.unpack_from(index, place)[1]
        if after > begin:
            return begin, after
    return begin, size


def offset_of_time(index: bytes, base_offset: int, timestamp_ms: int) -> int:
    """An offset at or before which the first record of `timestamp_ms` or later lies not."""
    timestamp, relative = _last_not_above(index, _TIME_ENTRY, timestamp_ms)
    # An entry is the first batch that has its timestamp: earlier ones are all below it.
    return base_offset + (relative if timestamp <= timestamp_ms else 0)


def _last_not_above(index: bytes, entry: Struct, target: int) -> tuple[int, int]:
    """The last entry whose first number is at most `target`; zeros if there is none."""
    low, high = 0, len(index) // entry.size
    previous = (0, 0)
    while low < high:
        middle = (low + high) // 2
        found: tuple[int, int] = entry.unpack_from(index, middle * entry.size)
        is_padding = middle > 0 and found == (0, 0)
        if is_padding or found[0] > target:
            high = middle
        else:
            low, previous = middle + 1, found
    return previous


class Aborts(NamedTuple):
    """Aborted transactions, and whether later segments can hold no more of the range."""

    found: list[AbortedTransaction]
    is_complete: bool


def aborted_in(index: bytes | None, start_offset: int, end_offset: int) -> Aborts:
    """Those that touch the offsets from `start_offset` up to `end_offset`."""
    found = []
    for entry in aborted_transactions(index or b""):
        if entry.last_offset >= start_offset and entry.first_offset < end_offset:
            found.append(entry)
        if entry.last_stable_offset >= end_offset:
            return Aborts(found, is_complete=True)
    return Aborts(found, is_complete=False)


def aborted_transactions(index: bytes) -> Sequence[AbortedTransaction]:
    """Every entry of a transaction index; raises DamagedObjectError."""
    try:
        entries = list(_TXN_ENTRY.iter_unpack(index))
    except struct.error:
        raise DamagedObjectError("a transaction index is not made of whole entries") from None
    if any(version != 0 for version, *_ in entries):
        raise DamagedObjectError("a transaction index has entries of another version")
    return [AbortedTransaction(*fields) for _, *fields in entries]
