"""lz4 streams: one frame of independent blocks.

| offset | bytes | field (little-endian) |
|---|---|---|
| 0 | 4 | `04 22 4d 18` |
| 4 | 1 | flags, as below. Written as `60` |
| 5 | 1 | bits 4-6 block size: 4 to 7 for 64 KiB, 256 KiB, 1 MiB, 4 MiB. Written as `40` |
| 6 | 0, 8 | content size, not looked at |
| ... | 1 | second byte of the xxHash-32 of what lies between the magic and here |
| ... | 4 | length of a block; high bit set: stored as it is; 0: end of the frame |
| ... | ... | the block, its xxHash-32 if the flags say so, then the next length |
| end | 0, 4 | checksum of the content, not looked at |

Flags: bits 6-7 version 1, 5 independent blocks, 4 block checksums, 3 content size, 2 content
checksum, 0-1 zero. Linked blocks and dictionaries are refused, what follows the frame is
ignored: so does Java.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import lz4.block
import lz4.frame

from kaa.records.errors import CompressionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.records.batch import Buffer

_UINT32_LE = Struct("<I")

# Lowest, highest and default level. Kafka's default means the fast compressor, all others HC.
LZ4_LEVELS = (1, 17, 9)

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HEADER = _LZ4_MAGIC + b"\x60\x40\x82"
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED_FLAG = 0x80000000
_LZ4_END = b"\x00\x00\x00\x00"
# The flags byte: version 1 and independent blocks are demanded, the two lowest bits must be zero.
_LZ4_FLAGS_MASK, _LZ4_FLAGS_DEMANDED = 0xE3, 0x60
_LZ4_HAS_CONTENT_CHECKSUM, _LZ4_HAS_CONTENT_SIZE, _LZ4_HAS_BLOCK_CHECKSUM = 4, 8, 16


class Lz4Compressor:
    """Collects blocks of 64 KiB; the header leaves with the first output."""

    def __init__(self, level: int) -> None:
        self._level = level
        self._pending = bytearray()
        self._header = _LZ4_HEADER

    def write(self, data: Buffer) -> bytes:
        self._pending += data
        # A full last block waits, as in Java, so that an empty one never follows it.
        return self._take(max(0, len(self._pending) - 1) // _LZ4_BLOCK_BYTES * _LZ4_BLOCK_BYTES)

    def finish(self) -> bytes:
        return self._take(len(self._pending)) + _LZ4_END

    def _take(self, size: int) -> bytes:
        parts = [self._header]
        self._header = b""
        for start in range(0, size, _LZ4_BLOCK_BYTES):
            plain = bytes(self._pending[start : min(start + _LZ4_BLOCK_BYTES, size)])
            block = self._compress_block(plain)
            if len(block) < len(plain):
                parts += (_UINT32_LE.pack(len(block)), block)
            else:
                parts += (_UINT32_LE.pack(len(plain) | _LZ4_STORED_FLAG), plain)
        del self._pending[:size]
        return b"".join(parts)

    def _compress_block(self, plain: bytes) -> bytes:
        if self._level == LZ4_LEVELS[2]:
            return bytes(lz4.block.compress(plain, mode="default", store_size=False))
        return bytes(
            lz4.block.compress(
                plain, mode="high_compression", compression=self._level, store_size=False
            )
        )


def read_lz4(data: memoryview, *, checks_header: bool = True) -> Iterator[Buffer]:
    """`checks_header` off is for magic 0, whose writers computed that checksum wrongly."""
    flags, block_bytes_max, position = _lz4_header(data, checks_header)
    has_checksum = bool(flags & _LZ4_HAS_BLOCK_CHECKSUM)
    while True:
        if len(data) - position < _UINT32_LE.size:
            raise CompressionError("lz4 data ends without an end mark")
        (word,) = _UINT32_LE.unpack_from(data, position)
        length = word & ~_LZ4_STORED_FLAG
        if length == 0:
            break
        end = position + 4 + length + 4 * has_checksum
        if length > block_bytes_max or end > len(data):
            raise CompressionError(f"lz4 block of {length} bytes goes beyond its bound")
        if has_checksum:
            yield _lz4_checked_block(data[5], data[position:end])
        elif word & _LZ4_STORED_FLAG:
            yield data[position + 4 : end]
        else:
            yield _lz4_block(data[position + 4 : end], block_bytes_max)
        position = end
    if flags & _LZ4_HAS_CONTENT_CHECKSUM and len(data) - position < 8:
        raise CompressionError("lz4 data ends inside the content checksum")


def _lz4_header(data: memoryview, checks_checksum: bool) -> tuple[int, int, int]:
    """Flags, greatest block size and position of the first block."""
    if len(data) < len(_LZ4_HEADER) or data[:4] != _LZ4_MAGIC:
        raise CompressionError("not an lz4 frame")
    flags, descriptor = data[4], data[5]
    if flags & _LZ4_FLAGS_MASK != _LZ4_FLAGS_DEMANDED:
        raise CompressionError(f"lz4 frame flags {flags:#04x} are not supported")
    if descriptor & 0x8F or not 4 <= descriptor >> 4 <= 7:
        raise CompressionError(f"lz4 block descriptor {descriptor:#04x} is not supported")
    end = 6 + (8 if flags & _LZ4_HAS_CONTENT_SIZE else 0)
    if len(data) <= end:
        raise CompressionError("lz4 frame header ends early")
    if checks_checksum and data[end] != _xxh32_short(data[4:end]) >> 8 & 0xFF:
        raise CompressionError("lz4 frame header checksum does not match")
    return flags, 1 << 2 * (descriptor >> 4) + 8, end + 1


def _lz4_block(block: memoryview, size_max: int) -> bytes:
    try:
        return bytes(lz4.block.decompress(block, uncompressed_size=size_max))
    except lz4.block.LZ4BlockError as error:
        raise CompressionError(f"lz4: {error}") from error


def _lz4_checked_block(descriptor: int, block: memoryview) -> bytes:
    """One block with its length before and its checksum after it, as a frame of its own.

    The library then checks the checksum, which it offers no other way to do.
    """
    head = bytes((_LZ4_FLAGS_DEMANDED | _LZ4_HAS_BLOCK_CHECKSUM, descriptor))
    checksum = bytes((_xxh32_short(head) >> 8 & 0xFF,))
    try:
        return bytes(lz4.frame.decompress(b"".join((_LZ4_MAGIC, head, checksum, block, _LZ4_END))))
    except RuntimeError as error:
        raise CompressionError(f"lz4: {error}") from error


def _xxh32_short(data: Buffer) -> int:
    """xxHash-32 with seed 0 of fewer than 16 bytes, which is all that frame headers need."""
    value = 0x165667B1 + len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word: int = _UINT32_LE.unpack_from(data, at)[0]
        value = _rotate_left(value + word * 0xC2B2AE3D, 17) * 0x27D4EB2F & 0xFFFFFFFF
    for byte in bytes(data[whole:]):
        value = _rotate_left(value + byte * 0x165667B1, 11) * 0x9E3779B1 & 0xFFFFFFFF
    value = (value ^ value >> 15) * 0x85EBCA77 & 0xFFFFFFFF
    value = (value ^ value >> 13) * 0xC2B2AE3D & 0xFFFFFFFF
    return value ^ value >> 16


def _rotate_left(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return (value << bits | value >> 32 - bits) & 0xFFFFFFFF
