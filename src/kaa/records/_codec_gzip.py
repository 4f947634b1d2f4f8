"""gzip streams: RFC 1952 members one after the other.

| offset | bytes | field |
|---|---|---|
| 0 | 3 | `1f 8b 08` |
| 3 | 1 | flags: 2 header checksum, 4 extra field, 8 name, 16 comment |
| 4 | 6 | time, extra flags, system: ignored |
| 10 | ... | what the flags announce, in the order extra, name, comment, checksum |
| ... | ... | deflate data |
| end - 8 | 4 | CRC-32 of the expanded data (little-endian) |
| end - 4 | 4 | its size modulo 2^32 |

After the first member, whatever is not a member is ignored, as Java ignores it.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import TYPE_CHECKING

from kaa.limits import DECOMPRESSION_CHUNK_BYTES, DECOMPRESSION_INPUT_SLICE_BYTES
from kaa.records.errors import CompressionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.records.batch import Buffer


_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP_HEADER_BYTES = 10
_GZIP_TRAILER = Struct("<II")
# What Java leaves alone after a member: too short for a header, data and trailer.
_GZIP_TAIL_IGNORED_BYTES = 18
_GZIP_HAS_HEADER_CRC, _GZIP_HAS_EXTRA, _GZIP_HAS_NAME, _GZIP_HAS_COMMENT = 2, 4, 8, 16


class GzipCompressor:
    def __init__(self, level: int) -> None:
        self._stream = zlib.compressobj(level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        self.write = self._stream.compress
        self.finish = self._stream.flush


def read_gzip(data: memoryview) -> Iterator[Buffer]:
    position = _gzip_header_end(data, 0)
    while True:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        checksum = size = 0
        while not inflater.eof:
            taken = data[position : position + DECOMPRESSION_INPUT_SLICE_BYTES]
            if not taken:
                raise CompressionError("gzip data ends inside a member")
            position += len(taken)
            for chunk in _inflate(inflater, taken):
                checksum = zlib.crc32(chunk, checksum)
                size += len(chunk)
                yield chunk
        position -= len(inflater.unused_data)
        if len(data) - position < _GZIP_TRAILER.size:
            raise CompressionError("gzip data ends inside a trailer")
        if _GZIP_TRAILER.unpack_from(data, position) != (checksum, size & 0xFFFFFFFF):
            raise CompressionError("gzip trailer does not fit the data")
        position += _GZIP_TRAILER.size
        if len(data) - position <= _GZIP_TAIL_IGNORED_BYTES:
            return
        try:
            position = _gzip_header_end(data, position)
        except CompressionError:
            return


def _inflate(inflater: zlib._Decompress, taken: memoryview) -> Iterator[bytes]:
    """All output of one input slice. A full chunk may leave output inside the inflater."""
    pending: Buffer = taken
    while True:
        try:
            chunk = inflater.decompress(pending, DECOMPRESSION_CHUNK_BYTES)
        except zlib.error as error:
            raise CompressionError(f"gzip: {error}") from error
        if chunk:
            yield chunk
        pending = inflater.unconsumed_tail
        if inflater.eof or (not pending and len(chunk) < DECOMPRESSION_CHUNK_BYTES):
            return


def _gzip_header_end(data: memoryview, start: int) -> int:
    """Position after the member header at `start`."""
    if len(data) - start < _GZIP_HEADER_BYTES or bytes(data[start : start + 3]) != _GZIP_MAGIC:
        raise CompressionError("not a gzip header")
    flags = data[start + 3]
    position = start + _GZIP_HEADER_BYTES
    if flags & _GZIP_HAS_EXTRA:
        if len(data) - position < 2:
            raise CompressionError("gzip header ends early")
        position += 2 + data[position] + 256 * data[position + 1]
    for text in (_GZIP_HAS_NAME, _GZIP_HAS_COMMENT):
        if flags & text:
            end = bytes(data[position:]).find(0)
            if end < 0:
                raise CompressionError("gzip header ends early")
            position += end + 1
    if flags & _GZIP_HAS_HEADER_CRC:
        stored = int.from_bytes(data[position : position + 2], "little")
        if stored != zlib.crc32(data[start:position]) & 0xFFFF:
            raise CompressionError("gzip header checksum does not fit")
        position += 2
    if position > len(data):
        raise CompressionError("gzip header ends early")
    return position
