"""gzip: optional header fields, members one after the other, what is ignored and what is not."""

from __future__ import annotations

import gzip
import zlib

import pytest

from kaa.records import CompressionError, CompressionType, compress, decompress_all

TEXT = b"some text that gzip can shorten, text, text, text"


def read(data: bytes) -> bytes:
    return decompress_all(CompressionType.GZIP, data)


def member(flags: int, extra: bytes = b"", text: bytes = TEXT) -> bytes:
    """A member with the optional header fields that `flags` announces."""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = deflate.compress(text) + deflate.flush()
    trailer = zlib.crc32(text).to_bytes(4, "little") + len(text).to_bytes(4, "little")
    return b"\x1f\x8b\x08" + bytes((flags,)) + bytes(6) + extra + body + trailer


def test_the_standard_library_reads_what_is_written() -> None:
    assert gzip.decompress(compress(CompressionType.GZIP, TEXT)) == TEXT
    assert read(gzip.compress(TEXT)) == TEXT


def test_optional_header_fields() -> None:
    assert read(member(0)) == TEXT
    assert read(member(4, b"\x03\x00abc")) == TEXT
    assert read(member(8, b"name\0")) == TEXT
    assert read(member(16, b"comment\0")) == TEXT
    assert read(member(4 | 8 | 16, b"\x01\x00xname\0comment\0")) == TEXT


def test_header_checksum() -> None:
    header = b"\x1f\x8b\x08\x02" + bytes(6)
    checksum = (zlib.crc32(header) & 0xFFFF).to_bytes(2, "little")
    assert read(member(2, checksum)) == TEXT
    with pytest.raises(CompressionError, match="header checksum"):
        read(member(2, b"\0\0"))


@pytest.mark.parametrize("size", [0, 1, 9])
def test_short_header(size: int) -> None:
    with pytest.raises(CompressionError):
        read(member(0)[:size])


@pytest.mark.parametrize(("flags", "extra"), [(4, b"\xff"), (4, b"\xff\xff"), (8, b"x"), (2, b"")])
def test_header_that_ends_early(flags: int, extra: bytes) -> None:
    with pytest.raises(CompressionError):
        read(b"\x1f\x8b\x08" + bytes((flags,)) + bytes(6) + extra)


def test_members_behind_each_other_are_one_stream() -> None:
    assert read(member(0) + member(8, b"n\0", b"more") + member(0)) == TEXT + b"more" + TEXT


def test_what_is_no_member_is_ignored_behind_the_first() -> None:
    assert read(member(0) + b"anything") == TEXT
    assert read(member(0) + b"anything that is longer than a member") == TEXT


def test_a_second_member_must_be_whole() -> None:
    with pytest.raises(CompressionError):
        read(member(0) + member(0)[:-3])


@pytest.mark.parametrize("position", [-8, -1])
def test_trailer_must_fit(position: int) -> None:
    data = bytearray(member(0))
    data[position] ^= 1
    with pytest.raises(CompressionError, match="trailer"):
        read(bytes(data))


def test_expansion_beyond_one_chunk_inside_one_slice() -> None:
    text = bytes(1_000_000)
    assert read(compress(CompressionType.GZIP, text)) == text
