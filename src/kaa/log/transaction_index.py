"""The aborted transactions of a segment, `<offset>.txnindex`.

A reader of committed data must skip what belongs to aborted transactions; a fetch answer tells it
which. One entry is added per abort marker, to the segment that holds the marker, 34 bytes,
big-endian:

| offset | bytes | field | meaning |
|---|---|---|---|
| 0 | 2 | version | 0 |
| 2 | 8 | producerId |  |
| 10 | 8 | firstOffset | first offset of the transaction |
| 18 | 8 | lastOffset | offset of its abort marker |
| 26 | 8 | lastStableOffset | the last stable offset once the marker counts |

Last offsets rise, first offsets need not. Last stable offsets rise as well, so a search for all
aborts below some offset may stop at the first entry whose last stable offset has reached it: every
transaction that began before that is decided in an earlier entry.

The file exists only once there is an entry. Entries are few and are written at once. A length that
is not a multiple of 34, another version, a last offset that does not rise, or one below the first
offset or beyond the end of the segment is corrupt; the segment is then scanned again.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kaa.log.errors import CorruptFileError
from kaa.log.files import read_whole, unlink_if_exists

if TYPE_CHECKING:
    from kaa.log.files import File, Files

_ENTRY = Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Read as a whole at first use: aborts are few next to records."""

    __slots__ = (
        "_base_offset",
        "_entries",
        "_file",
        "_files",
        "changes",
        "durable_changes",
        "path",
    )

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        self._files = files
        self._base_offset = base_offset
        self._file: File | None = None
        # None until the file was looked at.
        self._entries: list[AbortedTransaction] | None = None
        self.path = path
        # How often the file was written, came or went, and how much of that is on disk, in the file
        # and in its folder: without the folder a file that was synced is lost all the same, or an
        # older one comes back. The file may have been closed meanwhile.
        self.changes = 0
        self.durable_changes = 0

    @property
    def entries(self) -> list[AbortedTransaction]:
        """Every entry, in order. CorruptFileError."""
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    def _read(self) -> list[AbortedTransaction]:
        try:
            content = read_whole(self._files, self.path)
        except FileNotFoundError:
            return []
        if len(content) % _ENTRY.size:
            raise CorruptFileError(self.path, f"{len(content)} bytes are not whole entries")
        entries = []
        previous = self._base_offset - 1
        for version, *fields in _ENTRY.iter_unpack(content):
            entry = AbortedTransaction(*fields)
            rises = previous < entry.last_offset >= entry.first_offset >= 0
            if version != _VERSION or not rises:
                raise CorruptFileError(self.path, f"{entry} of version {version} is out of place")
            previous = entry.last_offset
            entries.append(entry)
        return entries

    def append(self, aborted: AbortedTransaction) -> None:
        entries = self.entries
        assert not entries or aborted.last_offset > entries[-1].last_offset
        if self._file is None:
            create = not self._files.exists(self.path)
            self._file = self._files.create(self.path) if create else self._files.open(self.path)
        self._file.write([_ENTRY.pack(_VERSION, *aborted)], len(entries) * _ENTRY.size)
        entries.append(aborted)
        self.changes += 1

    def collect(
        self, fetch_offset: int, upper_bound_offset: int
    ) -> tuple[list[AbortedTransaction], bool]:
        """The aborts that touch the range, and whether later segments can hold no more of them."""
        found = []
        for entry in self.entries:
            if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Removes the aborts whose marker is at or above `offset`."""
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        if len(kept) == len(self.entries):
            return
        if self._file is None:
            self._file = self._files.open(self.path)
        self._file.truncate(len(kept) * _ENTRY.size)
        self._entries = kept
        self.changes += 1

    def reset(self) -> None:
        """Starts over, without a file."""
        self.close()
        self.changes += unlink_if_exists(self._files, self.path)
        self._entries = []

    def flush(self) -> File | None:
        """The file for the caller to sync, if there is one to which something was written."""
        if self._file is None and self.changes > self.durable_changes and self._entries:
            self._file = self._files.open(self.path)
        return self._file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
