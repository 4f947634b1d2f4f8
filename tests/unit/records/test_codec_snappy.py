"""snappy: the Java library's framing, raw blocks, and sizes that no block can have."""

from __future__ import annotations

import cramjam
import pytest

from kaa.records import CompressionError, CompressionType, compress, compressor, decompress_all

HEADER = bytes.fromhex("82534e41505059000000000100000001")
TEXT = b"some text for snappy, some text for snappy"


def read(data: bytes) -> bytes:
    return decompress_all(CompressionType.SNAPPY, data)


def block(text: bytes) -> bytes:
    raw = bytes(cramjam.snappy.compress_raw(text))
    return len(raw).to_bytes(4, "big") + raw


def test_written_framing() -> None:
    data = compress(CompressionType.SNAPPY, TEXT)
    assert data == HEADER + block(TEXT)
    assert compress(CompressionType.SNAPPY, b"") == HEADER


def test_blocks_of_32_kibibytes() -> None:
    text = bytes(range(256)) * 300
    assert compress(CompressionType.SNAPPY, text) == HEADER + b"".join(
        block(text[start : start + 32768]) for start in range(0, len(text), 32768)
    )


def test_header_leaves_once() -> None:
    stream = compressor(CompressionType.SNAPPY)
    assert stream.write(b"ab") == HEADER
    assert stream.write(b"cd") == b""
    assert stream.finish() == block(b"abcd")


def test_raw_block() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert read(raw) == TEXT
    assert read(bytes(cramjam.snappy.compress_raw(b"x"))) == b"x"


def test_headers_between_blocks() -> None:
    assert read(HEADER + block(b"one") + HEADER + block(b"two")) == b"onetwo"


def test_version_counts_only_between_blocks() -> None:
    old = HEADER[:8] + bytes(8)
    assert read(old + block(b"one")) == b"one"
    with pytest.raises(CompressionError, match="version"):
        read(HEADER + block(b"one") + old)


def test_broken_header_between_blocks() -> None:
    assert read(HEADER + block(b"one") + HEADER[:7] + b"!" + HEADER[8:]) == b"one"
    with pytest.raises(CompressionError, match="header"):
        read(HEADER + block(b"one") + HEADER[:10])


def test_fewer_than_four_bytes_at_the_end_are_ignored() -> None:
    assert read(HEADER + block(b"one") + b"abc") == b"one"


def test_block_beyond_the_data() -> None:
    for length in (100, 2**31 - 1, 2**32 - 1):
        with pytest.raises(CompressionError):
            read(HEADER + length.to_bytes(4, "big") + b"abc")


def test_empty() -> None:
    for data in (b"", HEADER + bytes(4)):
        with pytest.raises(CompressionError):
            read(data)


def test_claimed_size_is_checked_before_memory_is_reserved() -> None:
    claims_four_gibibytes = b"\xff\xff\xff\xff\x0f" + b"\0" * 20
    with pytest.raises(CompressionError, match="cannot expand"):
        read(claims_four_gibibytes)
    with pytest.raises(CompressionError):
        read(HEADER + len(claims_four_gibibytes).to_bytes(4, "big") + claims_four_gibibytes)


def test_the_densest_block_is_accepted() -> None:
    # One literal byte, then copies of 64 bytes at distance 1, each 3 bytes long.
    copies = 1000
    size = 1 + 64 * copies
    length = bytes((size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14))
    dense = length + b"\x00a" + b"\xfe\x01\x00" * copies
    assert read(dense) == b"a" * size
