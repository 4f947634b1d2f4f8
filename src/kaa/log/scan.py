"""Walking over batches in a segment file without reading more than is needed.

A segment is batches one after the other (`kaa.records.batch`); the length in each header leads to
the next. Batches of magic 0 and 1 (`kaa.records.legacy`) lie in segments that were begun by a
Kafka before 0.11; they are walked over like the others. Three walks exist:

* `find_batch`: from a position out of the index to the batch that holds an offset,
* `iter_headers`: every header from a position on, the records left on disk,
* `iter_valid`: the same with checksums verified, for recovery.

All read through a window that is much smaller than a segment and never allocate by a length found
in the file: a batch larger than the window is skipped, or its checksum computed piece by piece.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import SCAN_WINDOW_BYTES, SEEK_WINDOW_BYTES
from kaa.model.topics import NO_TIMESTAMP
from kaa.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    RecordBatch,
)
from kaa.records.checksum import crc32c
from kaa.records.errors import CorruptRecordsError
from kaa.records.legacy import LEGACY_LENGTH_MIN, LegacyBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.log.files import File
    from kaa.records.batch import Buffer

_EXTENT = Struct(">qi4xb6xi")
"""Base offset, batch length, magic and last offset delta of a header."""
_LEGACY = Struct(">qiIbb")
"""Last offset, length, checksum, magic and attributes of an old one; a timestamp may follow."""
_INT64 = Struct(">q")
_SIZE_MIN = LEGACY_LENGTH_MIN + LOG_OVERHEAD_BYTES
"""Of the shortest batch of any magic."""


class BatchExtent(NamedTuple):
    """Where a batch lies and which offsets it spans."""

    position: int
    size: int
    base_offset: int
    last_offset: int


class StoredBatch(RecordBatch):
    """A batch in a file: its header is in `buffer`, its records need not be."""

    __slots__ = ("file_position",)

    def __init__(self, buffer: Buffer, position: int, file_position: int) -> None:
        self.buffer = buffer
        self.position = position
        self.file_position = file_position
        (
            self.base_offset,
            self.batch_length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(buffer, position)

    @property
    def file_end(self) -> int:
        return self.file_position + self.batch_length + LOG_OVERHEAD_BYTES

    def load(self, file: File) -> RecordBatch:
        """The batch with its records, read from the file."""
        return RecordBatch(file.read(self.size_in_bytes, self.file_position))


class StoredLegacyBatch(LegacyBatch):
    """A batch of magic 0 or 1 in a file, of which the header is in `buffer`.

    Where its offsets start only its records tell, which are not read here. Its last offset stands
    for the first one too: walks need no more than that offsets rise.
    """

    __slots__ = ("file_position",)

    last_offset_delta = 0

    def __init__(self, buffer: Buffer, position: int, file_position: int) -> None:
        self.buffer = buffer
        self.position = position
        self.file_position = file_position
        self.last_offset, self.batch_length, self.crc, self.magic, self.attributes = (
            _LEGACY.unpack_from(buffer, position)
        )
        self.max_timestamp = NO_TIMESTAMP
        if self.magic == 1 and len(buffer) - position >= _LEGACY.size + _INT64.size:
            self.max_timestamp = _INT64.unpack_from(buffer, position + _LEGACY.size)[0]

    @property
    def base_offset(self) -> int:
        return self.last_offset

    @property
    def file_end(self) -> int:
        return self.file_position + self.size_in_bytes

    def load(self, file: File) -> LegacyBatch:
        """The batch with its records, read from the file."""
        return LegacyBatch(file.read(self.size_in_bytes, self.file_position))


AnyStoredBatch = StoredBatch | StoredLegacyBatch


def find_batch(
    file: File, position: int, end: int, offset: int, indexed_offset: int | None = None
) -> BatchExtent | None:
    """The first batch from `position` on whose last offset is at least `offset`.

    Raises CorruptRecordsError where something other than a batch starts, and if the first one does
    not end with the offset that an index says it does.
    """
    for extent in _iter_extents(file, position, end, indexed_offset):
        if extent.last_offset >= offset:
            return extent
    return None


def whole_batches_end(
    file: File, position: int, end: int, limit: int, indexed_offset: int | None = None
) -> int:
    """The end of the last batch that ends at or before `limit`; `position` if none does. What lies
    before a damaged one can be read all the same.
    """
    start = position
    try:
        for extent in _iter_extents(file, position, end, indexed_offset):
            if extent.position + extent.size > limit:
                return extent.position
            position = extent.position + extent.size
    except CorruptRecordsError:
        if position == start:
            raise
    return position


def _iter_extents(
    file: File, position: int, end: int, indexed_offset: int | None
) -> Iterator[BatchExtent]:
    window = b""
    window_start = position
    while end - position >= _SIZE_MIN:
        start = position - window_start
        if start + HEADER_BYTES > len(window):
            window = _window(file, position, end, SEEK_WINDOW_BYTES)
            window_start, start = position, 0
        extent = _extent_at(file, window, start, position, end)
        if indexed_offset is not None and extent.last_offset != indexed_offset:
            raise CorruptRecordsError(
                f"{file.path}: no batch ends with {indexed_offset} at {position}"
            )
        indexed_offset = None
        yield extent
        position += extent.size


def no_batch(file: File, position: int) -> CorruptRecordsError:
    return CorruptRecordsError(f"{file.path}: no batch at position {position}")


def _window(file: File, position: int, end: int, window_bytes: int) -> bytes:
    """Bytes of the file, at least a whole header unless the end is near."""
    window = file.read(min(window_bytes, end - position), position)
    if len(window) < min(HEADER_BYTES, end - position):
        raise CorruptRecordsError(f"{file.path} ends at {position + len(window)}")
    return window


def _extent_at(file: File, window: bytes, start: int, position: int, end: int) -> BatchExtent:
    if window[start + MAGIC_POSITION] == MAGIC_V2 and len(window) - start >= HEADER_BYTES:
        base_offset, length, _, delta = _EXTENT.unpack_from(window, start)
        size, size_min = length + LOG_OVERHEAD_BYTES, HEADER_BYTES
    else:
        base_offset, length, _, magic, _ = _LEGACY.unpack_from(window, start)
        size, size_min, delta = length + LOG_OVERHEAD_BYTES, _SIZE_MIN, 0
        if magic not in {0, 1}:
            raise no_batch(file, position)
    if not size_min <= size <= end - position:
        raise no_batch(file, position)
    return BatchExtent(position, size, base_offset, base_offset + delta)


def iter_headers(
    file: File, position: int, end: int, window_bytes: int = SEEK_WINDOW_BYTES
) -> Iterator[AnyStoredBatch]:
    """The headers of all whole batches from `position` to `end`.

    Ends cleanly where the bytes left are not a whole batch; raises CorruptRecordsError where a size
    or magic is impossible.
    """
    window = b""
    window_start = position
    while end - position >= _SIZE_MIN:
        start = position - window_start
        if start + HEADER_BYTES > len(window):
            window = _window(file, position, end, window_bytes)
            window_start, start = position, 0
        magic = window[start + MAGIC_POSITION]
        batch: AnyStoredBatch
        if magic == MAGIC_V2:
            if end - position < HEADER_BYTES:
                return
            batch, size_min = StoredBatch(window, start, position), HEADER_BYTES
        elif magic < MAGIC_V2:
            batch, size_min = StoredLegacyBatch(window, start, position), _SIZE_MIN
        else:
            raise no_batch(file, position)
        size = batch.size_in_bytes
        if size < size_min:
            raise no_batch(file, position)
        if size > end - position:
            return
        yield batch
        position += size


def iter_valid(file: File, position: int, end: int) -> Iterator[AnyStoredBatch]:
    """The batches up to the first that is damaged: wrong size, magic, checksum or offset order."""
    next_offset = 0
    try:
        for batch in iter_headers(file, position, end, SCAN_WINDOW_BYTES):
            if batch.base_offset < next_offset or batch.last_offset_delta < 0:
                return
            if batch.crc != _stored_crc(file, batch):
                return
            next_offset = batch.next_offset
            yield batch
    except CorruptRecordsError:
        return


def _stored_crc(file: File, batch: AnyStoredBatch) -> int:
    is_legacy = batch.magic < MAGIC_V2
    checksum = zlib.crc32 if is_legacy else crc32c
    first = MAGIC_POSITION if is_legacy else ATTRIBUTES_POSITION
    start = batch.position + first
    stop = batch.position + batch.size_in_bytes
    if stop <= len(batch.buffer):
        return checksum(memoryview(batch.buffer)[start:stop])
    crc = 0
    position = batch.file_position + first
    while position < batch.file_end:
        piece = file.read(min(SCAN_WINDOW_BYTES, batch.file_end - position), position)
        if not piece:
            break
        crc = checksum(piece, crc)
        position += len(piece)
    return crc
