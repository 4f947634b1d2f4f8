"""Snapshots of producer state, `<offset>.snapshot`: the state below that offset.

| offset | bytes | field | meaning |
|---|---|---|---|
| 0 | 2 | version | 1 |
| 2 | 4 | crc | CRC-32C of everything after this field |
| 6 | 4 | count | number of entries |
| 10 | 46*n | entries |  |

An entry, big-endian:

| offset | bytes | field | meaning |
|---|---|---|---|
| 0 | 8 | producerId |  |
| 8 | 2 | epoch |  |
| 10 | 4 | lastSequence | -1 if no batch is remembered |
| 14 | 8 | lastOffset | -1 likewise |
| 22 | 4 | offsetDelta | last minus first offset of that batch |
| 26 | 8 | timestamp |  |
| 34 | 4 | coordinatorEpoch | -1 before the first transaction marker |
| 38 | 8 | currentTxnFirstOffset | -1 if no transaction is open |

One is written at every roll, named by the base offset of the new segment, and one at a clean stop.
The file is written in place, not atomically: one that a crash tore fails its checksum, is deleted,
and the next older one serves with a longer replay.
"""

from __future__ import annotations

from struct import Struct, error
from typing import TYPE_CHECKING

from kaa.limits import PRODUCER_SNAPSHOT_BYTES_MAX
from kaa.log.errors import CorruptFileError
from kaa.log.files import read_whole, unlink_if_exists, write_new
from kaa.log.names import DELETED_SUFFIX, SNAPSHOT_SUFFIX, base_offset_of, file_name
from kaa.log.producer_state import BatchMetadata, ProducerEntry
from kaa.model.topics import NO_OFFSET
from kaa.records.checksum import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.log.files import Files

_VERSION = 1
_HEADER = Struct(">hIi")
_CRC_END = 6
_ENTRY = Struct(">qhiqiqiq")


def encode_producer_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    content = bytearray(_HEADER.size)
    count = 0
    for entry in entries:
        last = entry.batches[-1] if entry.batches else BatchMetadata(-1, NO_OFFSET, 0, -1)
        content += _ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
        count += 1
    _HEADER.pack_into(content, 0, _VERSION, 0, count)
    _HEADER.pack_into(content, 0, _VERSION, crc32c(memoryview(content)[_CRC_END:]), count)
    return bytes(content)


def decode_producer_snapshot(path: str, content: bytes) -> list[ProducerEntry]:
    """The entries of a snapshot. CorruptFileError."""
    try:
        version, crc, count = _HEADER.unpack_from(content)
    except error:
        raise CorruptFileError(path, f"{len(content)} bytes cannot hold a header") from None
    if version != _VERSION:
        raise CorruptFileError(path, f"version {version} is not {_VERSION}")
    if len(content) > PRODUCER_SNAPSHOT_BYTES_MAX:
        raise CorruptFileError(path, f"{len(content)} bytes is above the limit")
    if len(content) != _HEADER.size + count * _ENTRY.size:
        raise CorruptFileError(path, f"{len(content)} bytes do not hold the entries: {count}")
    if crc != crc32c(memoryview(content)[_CRC_END:]):
        raise CorruptFileError(path, "the checksum does not match")
    entries = []
    for fields in _ENTRY.iter_unpack(memoryview(content)[_HEADER.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first = fields
        batches = [BatchMetadata(sequence, offset, delta, timestamp)] if offset >= 0 else []
        entries.append(
            ProducerEntry(
                producer_id, epoch, coordinator_epoch, timestamp, max(first, NO_OFFSET), batches
            )
        )
    return entries


class ProducerSnapshots:
    """The snapshot files of one partition folder."""

    __slots__ = ("_files", "_folder", "offsets")

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder
        # Rising.
        self.offsets: list[int] = []

    def scan(self, names: Iterable[str]) -> None:
        """Takes the snapshots among the names of the folder."""
        found = (base_offset_of(name) for name in names if name.endswith(SNAPSHOT_SUFFIX))
        self.offsets = sorted(offset for offset in found if offset is not None)

    def set_folder(self, folder: str) -> None:
        self._folder = folder

    def path(self, offset: int) -> str:
        return f"{self._folder}/{file_name(offset, SNAPSHOT_SUFFIX)}"

    def write(self, offset: int, entries: Iterable[ProducerEntry]) -> str:
        """Writes a snapshot, not yet durable; returns its path."""
        path = self.path(offset)
        write_new(self._files, path, encode_producer_snapshot(entries))
        self.add(offset)
        return path

    def add(self, offset: int) -> None:
        """Notes a snapshot that is there."""
        if offset not in self.offsets:
            self.offsets = sorted([*self.offsets, offset])

    def read_latest(self) -> tuple[int, list[ProducerEntry]] | None:
        """The newest good snapshot; damaged ones on the way are deleted."""
        while self.offsets:
            offset = self.offsets[-1]
            path = self.path(offset)
            try:
                return offset, decode_producer_snapshot(path, read_whole(self._files, path))
            except (CorruptFileError, FileNotFoundError):
                self.delete(offset)
        return None

    def encoded_at(self, offset: int) -> bytes:
        """The snapshot at an offset, for another log; one of no producers if it is not there, or
        damaged. On any thread.
        """
        path = self.path(offset)
        try:
            content = read_whole(self._files, path)
            decode_producer_snapshot(path, content)
        except (CorruptFileError, FileNotFoundError):
            return encode_producer_snapshot([])
        return content

    def delete(self, offset: int) -> None:
        self.offsets.remove(offset)
        unlink_if_exists(self._files, self.path(offset))

    def mark_deleted(self, offset: int) -> str | None:
        """Renames a snapshot out of the way; returns the path to unlink later."""
        if offset not in self.offsets:
            return None
        self.offsets.remove(offset)
        path = self.path(offset) + DELETED_SUFFIX
        self._files.rename(self.path(offset), path)
        return path

    def remove_strays(self, base_offsets: set[int]) -> None:
        """Keeps the snapshots at the start of a segment, and the newest one after them all.

        The newest may lie inside the active segment: a clean stop leaves it there.
        """
        last_base = max(base_offsets, default=0)
        strays = [offset for offset in self.offsets if offset not in base_offsets]
        for offset in strays:
            if offset != strays[-1] or offset < last_base:
                self.delete(offset)
