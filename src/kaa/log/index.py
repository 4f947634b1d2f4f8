"""The sparse indexes of a segment: offset to position, timestamp to offset.

Both are arrays of fixed-width entries in rising order, big-endian, offsets relative to the base
offset of the segment (32 bits are enough: a segment rolls before they run out).

`<offset>.index`, 8 bytes per entry:

| offset | bytes | field | meaning |
|---|---|---|---|
| 0 | 4 | relativeOffset | last offset of a batch |
| 4 | 4 | position | where that batch starts in the `.log` file |

`<offset>.timeindex`, 12 bytes per entry:

| offset | bytes | field | meaning |
|---|---|---|---|
| 0 | 8 | timestamp | the greatest timestamp in the segment up to this entry |
| 8 | 4 | relativeOffset | last offset of the first batch that has it |

An entry is added after every `index.interval.bytes` of log. A lookup finds the last entry not
above the target; the log is then scanned from there.

In memory an index is the number of its entries, its last entry, and two blocks of 4 KiB at most:
the newest entries, which are written out block by block, and the block of the last lookup. Entries
that a crash kept from being written are no loss: recovery rebuilds the indexes of every segment
that was not flushed, and a flush writes the rest. A file whose length is not a multiple of the
entry is corrupt. Kafka preallocates the indexes of its active segment and leaves a tail of zeros
when killed; since offsets rise, an all-zero entry after the first is never valid, and the end of
the valid part is found by bisection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from struct import Struct
from typing import TYPE_CHECKING

from kaa.limits import INDEX_BLOCK_BYTES
from kaa.log.errors import CorruptFileError

if TYPE_CHECKING:
    from kaa.log.files import File, Files

RELATIVE_OFFSET_MAX = 2**31 - 1


class IndexFile(ABC):
    """Fixed-width entries of two numbers, both rising. What they mean is the subclass's matter."""

    ENTRY: Struct
    __slots__ = (
        "_block",
        "_block_start",
        "_file",
        "_files",
        "_pending",
        "_pending_start",
        "_stored_bytes",
        "base_offset",
        "entries",
        "entries_max",
        "last_offset",
        "path",
    )

    def __init__(self, files: Files, path: str, base_offset: int, bytes_max: int) -> None:
        self._files = files
        self.path = path
        self.base_offset = base_offset
        self.entries_max = bytes_max // self.ENTRY.size
        self.entries = 0
        # Offset of the last entry; the base offset while there is none.
        self.last_offset = base_offset
        self._file: File | None = None
        # Length of the file, which a zero tail makes longer than what it holds.
        self._stored_bytes = 0
        # The newest entries, from number `_pending_start` on; not all are written yet.
        self._pending = bytearray()
        self._pending_start = 0
        self._block = b""
        self._block_start = 0

    # --- life of the file

    def create(self) -> None:
        """Starts empty, with a new file."""
        self.close()
        self._file = self._files.create(self.path)
        self._forget(0)
        self._stored_bytes = 0

    def load(self) -> None:
        """Takes the number of entries from the file. FileNotFoundError, CorruptFileError."""
        self._stored_bytes = self._files.size(self.path)
        entries, rest = divmod(self._stored_bytes, self.ENTRY.size)
        if rest:
            raise CorruptFileError(self.path, f"{self._stored_bytes} bytes are not whole entries")
        self._forget(entries)
        try:
            self.entries = self._pending_start = self._valid_entries(entries)
            self._block = b""
            self._load_last()
        finally:
            self.close()

    def _valid_entries(self, entries: int) -> int:
        """The entries before the zero tail of a preallocated file."""
        if entries == 0 or any(self.entry(entries - 1)):
            return entries
        low, high = 0, entries - 1
        while low < high:
            middle = (low + high) // 2
            if any(self.entry(middle)):
                low = middle + 1
            else:
                high = middle
        return low

    def flush(self) -> File:
        """Writes what is not written; returns the file for the caller to sync."""
        file = self._opened()
        stored = self._pending_start * self.ENTRY.size
        if self._pending:
            file.write([self._pending], stored)
        stored += len(self._pending)
        if self._stored_bytes > stored:
            file.truncate(stored)
        self._stored_bytes = stored
        return file

    def close(self) -> None:
        """Closes the descriptor; the next use opens it again. Entries not written stay here."""
        if self._file is not None:
            self._file.close()
            self._file = None

    # --- entries

    @property
    def size_in_bytes(self) -> int:
        return self.entries * self.ENTRY.size

    def entry(self, number: int) -> tuple[int, int]:
        buffer, position = self._place(number)
        first, second = self.ENTRY.unpack_from(buffer, position)
        return first, second

    def truncate_entries(self, entries: int) -> None:
        """Keeps the first `entries` only."""
        if entries >= self.entries:
            return
        self._write_pending()
        self._opened().truncate(entries * self.ENTRY.size)
        self._stored_bytes = entries * self.ENTRY.size
        self._forget(entries)
        self._load_last()

    def _append(self, first: int, second: int) -> None:
        self._pending += self.ENTRY.pack(first, second)
        self.entries += 1
        if len(self._pending) > INDEX_BLOCK_BYTES:
            self._write_pending()

    def _write_pending(self) -> None:
        if self._pending:
            self.flush()
            self._pending_start = self.entries
            self._pending = bytearray()

    def _search(self, target: int, field: int) -> int:
        """Number of the last entry whose field is at most the target; -1 if there is none."""
        pending, size, unpack = self._pending, self.ENTRY.size, self.ENTRY.unpack_from
        if pending and unpack(pending)[field] <= target:
            # Where most readers are: near the end of the log.
            low, high = 0, len(pending) // size
            while low < high:
                middle = (low + high) // 2
                if unpack(pending, middle * size)[field] <= target:
                    low = middle + 1
                else:
                    high = middle
            return self._pending_start + low - 1
        low, high = 0, self._pending_start
        while low < high:
            middle = (low + high) // 2
            if unpack(*self._place(middle))[field] <= target:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _place(self, number: int) -> tuple[bytes | bytearray, int]:
        """The block in which an entry is, and where in it."""
        size = self.ENTRY.size
        if number >= self._pending_start and self._pending:
            return self._pending, (number - self._pending_start) * size
        start = (number - self._block_start) * size
        if not 0 <= start < len(self._block):
            per_block = INDEX_BLOCK_BYTES // size
            self._block_start = number - number % per_block
            self._block = self._opened().read(per_block * size, self._block_start * size)
            start = (number - self._block_start) * size
        return self._block, start

    def _opened(self) -> File:
        if self._file is None:
            self._file = self._files.open(self.path)
        return self._file

    def _forget(self, entries: int) -> None:
        self.entries = self._pending_start = entries
        self._pending = bytearray()
        self._block = b""

    @abstractmethod
    def _load_last(self) -> None:
        """Takes the last entry, or its absence, into the fields of the subclass."""


class OffsetIndex(IndexFile):
    """Offset to file position."""

    ENTRY = Struct(">ii")
    __slots__ = ()

    @property
    def is_full(self) -> bool:
        return self.entries >= self.entries_max

    def append(self, offset: int, position: int) -> None:
        relative = offset - self.base_offset
        assert 0 <= relative <= RELATIVE_OFFSET_MAX
        assert self.entries == 0 or offset > self.last_offset
        self._append(relative, position)
        self.last_offset = offset

    def lookup(self, offset: int) -> tuple[int, int]:
        """The last entry (offset, position) at or below `offset`, or the start of the segment."""
        if offset < self.base_offset:
            return self.base_offset, 0
        number = self._search(offset - self.base_offset, 0)
        if number < 0:
            return self.base_offset, 0
        relative, position = self.entry(number)
        return self.base_offset + relative, position

    def lookup_position(self, position: int) -> tuple[int, int]:
        """The last entry whose batch starts at or before `position`, or the segment's start."""
        number = self._search(position, 1)
        if number < 0:
            return self.base_offset, 0
        relative, found = self.entry(number)
        return self.base_offset + relative, found

    def upper_bound_offset(self, position: int) -> int | None:
        """Offset of the first entry at or after `position`: nothing read before is above it."""
        number = self._search(position - 1, 1) + 1
        if number >= self.entries:
            return None
        return self.base_offset + self.entry(number)[0]

    def truncate_to(self, offset: int) -> None:
        """Removes the entries at and above `offset`."""
        self.truncate_entries(self._search(offset - self.base_offset - 1, 0) + 1)

    def _load_last(self) -> None:
        last = self.entry(self.entries - 1)[0] if self.entries else 0
        self.last_offset = self.base_offset + last


class TimeIndex(IndexFile):
    """Timestamp to offset."""

    ENTRY = Struct(">qi")
    __slots__ = ("last_timestamp",)

    def __init__(self, files: Files, path: str, base_offset: int, bytes_max: int) -> None:
        super().__init__(files, path, base_offset, bytes_max)
        self.last_timestamp = -1

    @property
    def is_full(self) -> bool:
        """One place is kept for the last entry of the segment, written when it rolls."""
        return self.entries >= self.entries_max - 1

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Adds the entry if the timestamp is greater than the last one."""
        if timestamp <= self.last_timestamp:
            return
        relative = offset - self.base_offset
        assert 0 <= relative <= RELATIVE_OFFSET_MAX
        self._append(timestamp, relative)
        self.last_timestamp = timestamp
        self.last_offset = offset

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry (timestamp, offset) not above `timestamp`, else (-1, base offset)."""
        number = self._search(timestamp, 0)
        if number < 0:
            return -1, self.base_offset
        found, relative = self.entry(number)
        return found, self.base_offset + relative

    def truncate_to(self, offset: int) -> None:
        """Removes the entries at and above `offset`."""
        self.truncate_entries(self._search(offset - self.base_offset - 1, 1) + 1)

    def _load_last(self) -> None:
        timestamp, relative = self.entry(self.entries - 1) if self.entries else (-1, 0)
        self.last_timestamp = timestamp
        self.last_offset = self.base_offset + relative
