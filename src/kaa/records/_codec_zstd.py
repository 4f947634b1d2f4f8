"""zstd streams: RFC 8878 frames one after the other; written without content size and checksum.

What the walk over a frame needs to know of it (little-endian):

| offset | bytes | field |
|---|---|---|
| 0 | 4 | `28 b5 2f fd`; `5x 2a 4d 18` begins a skippable frame: uint32 size, ignored data |
| 4 | 1 | bits 6-7 width of the size, 5 single segment, 2 checksum, 0-1 width of the identifier |
| ... | 0, 1 | window descriptor, unless single segment |
| ... | 0-4 | dictionary identifier |
| ... | 0-8 | content size |
| ... | 3 | block: bit 0 last, 1-2 kind (1: one byte repeated), 3-23 size; then its data |
| ... | 0, 4 | content checksum |
"""

from __future__ import annotations

import threading
from struct import Struct
from typing import TYPE_CHECKING

import zstandard

from kaa.limits import DECOMPRESSION_CHUNK_BYTES, DECOMPRESSOR_KEPT_BYTES_MAX
from kaa.records.errors import CompressionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.records.batch import Buffer

_UINT32_LE = Struct("<I")

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE_MAGIC = 0x184D2A50

_kept = threading.local()


class ZstdCompressor:
    def __init__(self, level: int) -> None:
        self._stream = zstandard.ZstdCompressor(level=level).compressobj()

    def write(self, data: Buffer) -> bytes:
        return self._stream.compress(data)

    def finish(self) -> bytes:
        return self._stream.flush()


def read_zstd(data: memoryview) -> Iterator[Buffer]:
    return _read(data, zstandard.ZstdDecompressor())


def read_zstd_at_once(data: memoryview) -> Iterator[Buffer]:
    """For those who take all chunks before they read anything else.

    They share a decompressor for each thread: to make one costs more than to expand a small batch.
    One that had to make a large window is not kept.
    """
    decompressor = getattr(_kept, "decompressor", None)
    if decompressor is None:
        decompressor = _kept.decompressor = zstandard.ZstdDecompressor()
    yield from _read(data, decompressor)
    if decompressor.memory_size() > DECOMPRESSOR_KEPT_BYTES_MAX:
        _kept.decompressor = None


def _read(data: memoryview, decompressor: zstandard.ZstdDecompressor) -> Iterator[Buffer]:
    reader = decompressor.stream_reader(data, read_across_frames=True)
    try:
        while chunk := reader.read(DECOMPRESSION_CHUNK_BYTES):
            yield chunk
    except zstandard.ZstdError as error:
        raise CompressionError(f"zstd: {error}") from error
    # Last, so that the one who finds the records wrong before their end hears of that first.
    _check_zstd_is_whole(data)


def _check_zstd_is_whole(data: memoryview) -> None:
    """Walks the frames by their block headers: the library takes a cut-off frame for its end."""
    position = 0
    while position < len(data):
        position = _zstd_frame_end(data, position)
        if position > len(data):
            raise CompressionError("zstd data ends inside a frame")


def _zstd_frame_end(data: memoryview, position: int) -> int:
    """Position after the frame at `position`; beyond the data if the data ends inside it."""
    beyond = len(data) + 1
    if len(data) - position < 5:
        return beyond
    (magic,) = _UINT32_LE.unpack_from(data, position)
    if magic & 0xFFFFFFF0 == _ZSTD_SKIPPABLE_MAGIC:
        if len(data) - position < 8:
            return beyond
        (size,) = _UINT32_LE.unpack_from(data, position + 4)
        return position + 8 + int(size)
    if magic != _ZSTD_MAGIC:
        raise CompressionError(f"zstd frame with unknown magic {magic:#x}")
    descriptor = data[position + 4]
    single_segment = descriptor >> 5 & 1
    content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
    dictionary_id_bytes = (0, 1, 2, 4)[descriptor & 3]
    position += 5 + (1 - single_segment) + dictionary_id_bytes + content_size_bytes
    last = 0
    while not last:
        if len(data) - position < 3:
            return beyond
        header = int.from_bytes(data[position : position + 3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        # A run-length block (kind 1) stores one byte, whatever size it stands for.
        position += 3 + (1 if kind == 1 else size)
    return position + (4 if descriptor & 4 else 0)
