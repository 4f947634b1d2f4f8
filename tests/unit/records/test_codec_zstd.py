"""zstd: frames one after the other, skippable frames, and truncation that the library overlooks."""

from __future__ import annotations

import pytest
import zstandard

from kaa.records import CompressionError, CompressionType, compress, decompress_all

TEXT = b"text for zstd, text for zstd, text for zstd" * 10


def read(data: bytes) -> bytes:
    return decompress_all(CompressionType.ZSTD, data)


def skippable(content: bytes, magic: int = 0x184D2A50) -> bytes:
    return magic.to_bytes(4, "little") + len(content).to_bytes(4, "little") + content


def test_written_frame_has_no_content_size_and_no_checksum() -> None:
    data = compress(CompressionType.ZSTD, TEXT)
    parameters = zstandard.get_frame_parameters(data)
    assert parameters.content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert not parameters.has_checksum
    assert read(data) == TEXT


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("content_size", [False, True])
@pytest.mark.parametrize("size", [0, 10, 300, 70_000, 5_000_000])
def test_frames_of_other_writers(checksum: bool, content_size: bool, size: int) -> None:
    text = TEXT * (size // len(TEXT)) + TEXT[: size % len(TEXT)]
    writer = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=content_size)
    data = writer.compress(text)
    assert read(data) == text
    for cut in (1, 2, 3, 4, 5):
        with pytest.raises(CompressionError):
            read(data[:-cut])


def test_frames_behind_each_other() -> None:
    one = compress(CompressionType.ZSTD, TEXT)
    assert read(one + compress(CompressionType.ZSTD, b"") + one) == TEXT + TEXT


def test_skippable_frames() -> None:
    one = compress(CompressionType.ZSTD, TEXT)
    assert read(skippable(b"hidden") + one + skippable(b"", 0x184D2A5F)) == TEXT
    with pytest.raises(CompressionError, match="inside a frame"):
        read(one + skippable(b"hidden")[:-1])
    with pytest.raises(CompressionError):
        read(one + skippable(b"hidden")[:6])


def test_anything_else_behind_a_frame() -> None:
    one = compress(CompressionType.ZSTD, TEXT)
    for tail in (b"x", b"garbage", bytes(20)):
        with pytest.raises(CompressionError):
            read(one + tail)


def test_wrong_checksum() -> None:
    data = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(TEXT))
    data[-1] ^= 1
    with pytest.raises(CompressionError):
        read(bytes(data))


def test_window_beyond_the_library_default() -> None:
    # Window descriptor 0xff asks for more than two terabytes.
    with pytest.raises(CompressionError):
        read(bytes.fromhex("28b52ffd00ff010000"))


def test_repeated_bytes_expand_in_chunks() -> None:
    # Blocks that repeat one byte 131,072 times take 4 bytes each.
    header = bytes.fromhex("28b52ffd0088")
    block = (131072 << 3 | 1 << 1).to_bytes(3, "little") + b"z"
    last = (131072 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"z"
    assert read(header + block * 20 + last) == b"z" * 131072 * 21
