"""snappy streams: the framing of the Java library snappy-java, or one raw block.

| offset | bytes | field (big-endian) |
|---|---|---|
| 0 | 8 | `82 53 4e 41 50 50 59 00` |
| 8 | 4 | version 1 (not looked at in the first header) |
| 12 | 4 | compatible version 1 |
| 16 | 4 | length of a block |
| 20 | ... | the block: raw snappy of 32 KiB, the last one of less; then the next length |

Another header may stand where a block may; fewer than 4 bytes at the end are ignored. Data that
does not begin with the eight magic bytes is one raw block.

No three bytes of a block stand for more than 64, so a block that claims to expand further is
refused before memory is reserved for it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import cramjam

from kaa.records.errors import CompressionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.records.batch import Buffer

_UINT32_BE = Struct(">I")

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 * 1024
_XERIAL_BLOCK_BYTES_MAX = 512 * 1024 * 1024
# Three bytes of a snappy block name a copy of at most 64.
_SNAPPY_RATIO_MAX = 64 / 3


class SnappyCompressor:
    """Collects 32 KiB blocks; the header leaves with the first output."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._header = _XERIAL_HEADER

    def write(self, data: Buffer) -> bytes:
        self._pending += data
        whole = len(self._pending) - len(self._pending) % _XERIAL_BLOCK_BYTES
        return self._take(whole)

    def finish(self) -> bytes:
        return self._take(len(self._pending))

    def _take(self, size: int) -> bytes:
        parts = [self._header]
        self._header = b""
        for start in range(0, size, _XERIAL_BLOCK_BYTES):
            end = min(start + _XERIAL_BLOCK_BYTES, size)
            block = bytes(cramjam.snappy.compress_raw(bytes(self._pending[start:end])))
            parts += (_UINT32_BE.pack(len(block)), block)
        del self._pending[:size]
        return b"".join(parts)


def read_snappy(data: memoryview) -> Iterator[Buffer]:
    if not data:
        raise CompressionError("snappy data is empty")
    if len(data) < len(_XERIAL_HEADER) or data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        yield _snappy_block(data)
        return
    position = len(_XERIAL_HEADER)
    while len(data) - position >= _UINT32_BE.size:
        (length,) = _UINT32_BE.unpack_from(data, position)
        if data[position : position + 4] == _XERIAL_MAGIC[:4]:
            header = data[position : position + len(_XERIAL_HEADER)]
            if len(header) < len(_XERIAL_HEADER):
                raise CompressionError("snappy data ends inside a header")
            if header[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
                return
            if int.from_bytes(header[8:12], "big", signed=True) < 1:
                raise CompressionError("snappy header of an unknown version")
            position += len(_XERIAL_HEADER)
            continue
        position += _UINT32_BE.size
        if length > min(len(data) - position, _XERIAL_BLOCK_BYTES_MAX):
            raise CompressionError(f"snappy block of {length} bytes goes beyond the data")
        yield _snappy_block(data[position : position + length])
        position += length


def _snappy_block(block: memoryview) -> bytearray:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * _SNAPPY_RATIO_MAX:
            raise CompressionError(f"snappy block cannot expand to {size} bytes")
        output = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise CompressionError(f"snappy: {error}") from error
    if written != size:
        raise CompressionError(f"snappy block expands to {written} bytes instead of {size}")
    return output
