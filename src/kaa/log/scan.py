"""Walking over batches in a segment file without reading more than is needed.

A segment is batches behind each other (``kaa.records.batch``); the length in each header leads to
the next. Three walks exist:

* ``find_batch``: from a position out of the index to the batch that holds an offset,
* ``iter_headers``: every header from a position on, the records left on disk,
* ``iter_valid``: the same with checksums verified, for recovery.

All read through a window that is much smaller than a segment and never allocate by a length found
in the file: a batch larger than the window is skipped, or its checksum computed piece by piece.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from kaa.limits import SCAN_WINDOW_BYTES, SEEK_WINDOW_BYTES
from kaa.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    RecordBatch,
)
from kaa.records.errors import CorruptRecordsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.log.files import File
    from kaa.records.batch import Buffer

_EXTENT = Struct(">qi4xb6xi")
"""Base offset, batch length, magic and last offset delta of a header."""


class BatchExtent(NamedTuple):
    """Where a batch lies and which offsets it spans."""

    position: int
    size: int
    base_offset: int
    last_offset: int


class StoredBatch(RecordBatch):
    """A batch in a file: its header is in ``buffer``, its records need not be."""

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


def find_batch(
    file: File, position: int, end: int, offset: int, indexed_offset: int | None = None
) -> BatchExtent | None:
    """The first batch from ``position`` on whose last offset is at least ``offset``.

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
    """The end of the last batch that ends at or before ``limit``; ``position`` if none does."""
    for extent in _iter_extents(file, position, end, indexed_offset):
        if extent.position + extent.size > limit:
            return extent.position
        position = extent.position + extent.size
    return position


def _iter_extents(
    file: File, position: int, end: int, indexed_offset: int | None
) -> Iterator[BatchExtent]:
    window = b""
    window_start = position
    while end - position >= HEADER_BYTES:
        start = position - window_start
        if start + HEADER_BYTES > len(window):
            window = file.read(min(SEEK_WINDOW_BYTES, end - position), position)
            window_start, start = position, 0
            if len(window) < HEADER_BYTES:
                raise CorruptRecordsError(f"the file ends at {position + len(window)}")
        base_offset, length, magic, delta = _EXTENT.unpack_from(window, start)
        size = length + LOG_OVERHEAD_BYTES
        if magic != MAGIC_V2 or not HEADER_BYTES <= size <= end - position:
            raise CorruptRecordsError(f"no batch at position {position}")
        last_offset = base_offset + delta
        if indexed_offset is not None and last_offset != indexed_offset:
            raise CorruptRecordsError(f"no batch ends with {indexed_offset} at {position}")
        indexed_offset = None
        yield BatchExtent(position, size, base_offset, last_offset)
        position += size


def iter_headers(
    file: File, position: int, end: int, window_bytes: int = SEEK_WINDOW_BYTES
) -> Iterator[StoredBatch]:
    """The headers of all whole batches from ``position`` to ``end``.

    Ends cleanly where the bytes left are no whole batch; raises CorruptRecordsError where a size
    or magic is impossible.
    """
    window = b""
    window_start = position
    while end - position >= HEADER_BYTES:
        start = position - window_start
        if start + HEADER_BYTES > len(window):
            window = file.read(min(window_bytes, end - position), position)
            window_start, start = position, 0
            if len(window) < HEADER_BYTES:
                raise CorruptRecordsError(f"the file ends at {position + len(window)}")
        batch = StoredBatch(window, start, position)
        size = batch.size_in_bytes
        if batch.magic != MAGIC_V2 or size < HEADER_BYTES:
            raise CorruptRecordsError(f"no batch at position {position}")
        if size > end - position:
            return
        yield batch
        position += size


def iter_valid(file: File, position: int, end: int) -> Iterator[StoredBatch]:
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


def _stored_crc(file: File, batch: StoredBatch) -> int:
    start = batch.position + ATTRIBUTES_POSITION
    stop = batch.position + batch.size_in_bytes
    if stop <= len(batch.buffer):
        return crc32c(memoryview(batch.buffer)[start:stop])
    crc = 0
    position = batch.file_position + ATTRIBUTES_POSITION
    while position < batch.file_end:
        piece = file.read(min(SCAN_WINDOW_BYTES, batch.file_end - position), position)
        if not piece:
            break
        crc = crc32c(piece, crc)
        position += len(piece)
    return crc
