"""lz4: frames as Kafka writes them, the frames it reads besides, and those it refuses."""

from __future__ import annotations

import lz4.block
import lz4.frame
import pytest

from kaa.records import CompressionError, CompressionType, compress, compressor, decompress_all
from kaa.records._codec_lz4 import read_lz4

TEXT = b"text for lz4, text for lz4, text for lz4"
END = bytes(4)


def read(data: bytes) -> bytes:
    return decompress_all(CompressionType.LZ4, data)


def frame(text: bytes, **options: object) -> bytes:
    return bytes(lz4.frame.compress(text, **{"block_linked": False, **options}))


def test_written_frame() -> None:
    data = compress(CompressionType.LZ4, TEXT)
    block = lz4.block.compress(TEXT, store_size=False)
    assert data == bytes.fromhex("04224d18604082") + len(block).to_bytes(4, "little") + block + END
    assert lz4.frame.decompress(data) == TEXT
    assert compress(CompressionType.LZ4, b"") == bytes.fromhex("04224d18604082") + END


def test_incompressible_blocks_are_stored() -> None:
    text = bytes(range(256))
    data = compress(CompressionType.LZ4, text)
    assert data[7:11] == (0x80000000 | 256).to_bytes(4, "little")
    assert read(data) == text


def test_no_empty_block_follows_a_full_one() -> None:
    stream = compressor(CompressionType.LZ4)
    text = bytes(64 * 1024)
    written = stream.write(text) + stream.finish()
    assert read(written) == text
    assert written.count(END) >= 1
    assert written == compress(CompressionType.LZ4, text)


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("block_checksum", [False, True])
@pytest.mark.parametrize("content_checksum", [False, True])
@pytest.mark.parametrize("store_size", [False, True])
def test_frames_of_other_writers(
    block_size: int, block_checksum: bool, content_checksum: bool, store_size: bool
) -> None:
    text = TEXT * 5000
    data = frame(
        text,
        block_size=block_size,
        block_checksum=block_checksum,
        content_checksum=content_checksum,
        store_size=store_size,
    )
    assert read(data) == text


def test_linked_blocks_are_refused() -> None:
    with pytest.raises(CompressionError, match="flags"):
        read(lz4.frame.compress(TEXT * 5000, block_linked=True))


def test_content_checksum_is_not_looked_at() -> None:
    data = frame(TEXT, content_checksum=True, store_size=False)
    assert read(data[:-4] + b"oops") == TEXT
    with pytest.raises(CompressionError, match="content checksum"):
        read(data[:-1])


def test_content_size_is_not_looked_at() -> None:
    data = bytearray(frame(TEXT, store_size=True))
    data[6:14] = bytes(8)
    with pytest.raises(CompressionError, match="header checksum"):
        read(bytes(data))
    assert b"".join(read_lz4(memoryview(data), checks_header=False)) == TEXT


def test_block_checksum_is_checked() -> None:
    data = bytearray(frame(TEXT, block_checksum=True, store_size=False))
    data[-5] ^= 1
    with pytest.raises(CompressionError):
        read(bytes(data))


@pytest.mark.parametrize(
    "header", ["04224d18a04082", "04224d1861408200", "04224d18603082", "04224d18604182", "04224d19"]
)
def test_headers_that_are_refused(header: str) -> None:
    with pytest.raises(CompressionError):
        read(bytes.fromhex(header) + END + bytes(8))


def test_what_follows_the_frame_is_ignored() -> None:
    data = compress(CompressionType.LZ4, TEXT)
    assert read(data + b"anything") == TEXT
    assert read(data + data) == TEXT


def test_stored_block_of_length_zero_ends_the_frame() -> None:
    assert read(bytes.fromhex("04224d18604082") + b"\0\0\0\x80") == b""


def test_blocks_beyond_their_bound() -> None:
    header = bytes.fromhex("04224d18604082")
    for length in (64 * 1024 + 1, 100, 0x7FFFFFFF):
        with pytest.raises(CompressionError):
            read(header + length.to_bytes(4, "little") + bytes(50))


def test_missing_end_mark() -> None:
    with pytest.raises(CompressionError, match="end mark"):
        read(compress(CompressionType.LZ4, TEXT)[:-4])
