"""The codecs together: round trips, bounded chunks, bounded expansion, one exception type."""

from __future__ import annotations

import contextlib
import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa.limits import DECOMPRESSION_CHUNK_BYTES
from kaa.records import (
    CompressionError,
    CompressionType,
    compress,
    compressor,
    decompress_all,
    decompress_chunks,
)
from kaa.records.compress import checked_level
from tests.unit.records.samples import CODECS, codecs

COMPRESSED = [codec for codec in CODECS if codec is not CompressionType.NONE]
SIZES = (0, 1, 100, 32 * 1024, 64 * 1024, 64 * 1024 + 1, 300_000)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", SIZES)
def test_round_trip(codec: CompressionType, size: int) -> None:
    rng = random.Random(size)
    for data in (bytes(size), rng.randbytes(size), b"some words and then " * (size // 20)):
        assert decompress_all(codec, compress(codec, data)) == data


@given(codecs, st.lists(st.binary(max_size=2000), max_size=8))
def test_streamed_writes_equal_one_write(codec: CompressionType, parts: list[bytes]) -> None:
    stream = compressor(codec)
    written = b"".join([stream.write(part) for part in parts]) + stream.finish()
    assert decompress_all(codec, written) == b"".join(parts)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_chunks_are_bounded(codec: CompressionType) -> None:
    data = compress(codec, bytes(5_000_000))
    chunks = [len(chunk) for chunk in decompress_chunks(codec, data)]
    assert sum(chunks) == 5_000_000
    assert max(chunks) <= DECOMPRESSION_CHUNK_BYTES


@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.LZ4, CompressionType.ZSTD])
def test_memory_is_constant_however_far_data_expands(codec: CompressionType) -> None:
    stream = compressor(codec)
    zeros = bytes(1 << 20)
    data = b"".join([stream.write(zeros) for _ in range(64)]) + stream.finish()
    tracemalloc.start()
    size = sum(len(chunk) for chunk in decompress_chunks(codec, data))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == 64 << 20
    assert peak < 1 << 20


@pytest.mark.parametrize("codec", CODECS)
def test_expansion_is_bounded(codec: CompressionType) -> None:
    data = compress(codec, bytes(100_000))
    assert len(decompress_all(codec, data, 100_000)) == 100_000
    with pytest.raises(CompressionError, match="beyond"):
        decompress_all(codec, data, 99_999)


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (CompressionType.GZIP, (-1, 1, 9)),
        (CompressionType.LZ4, (1, 9, 17)),
        (CompressionType.ZSTD, (-131072, -5, 0, 3, 12)),
    ],
)
def test_levels(codec: CompressionType, levels: tuple[int, ...]) -> None:
    data = b"abcdefgh" * 5000
    for level in levels:
        assert decompress_all(codec, compress(codec, data, level)) == data


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (CompressionType.GZIP, 0),
        (CompressionType.GZIP, 10),
        (CompressionType.GZIP, -2),
        (CompressionType.LZ4, 0),
        (CompressionType.LZ4, 18),
        (CompressionType.ZSTD, 23),
        (CompressionType.ZSTD, -131073),
    ],
)
def test_levels_kafka_does_not_allow(codec: CompressionType, level: int) -> None:
    with pytest.raises(ValueError, match="no level"):
        compress(codec, b"", level)


def test_default_levels() -> None:
    levels = [checked_level(codec, None) for codec in COMPRESSED if codec != CompressionType.SNAPPY]
    assert levels == [-1, 9, 3]
    assert checked_level(CompressionType.ZSTD, 22) == 22


@pytest.mark.parametrize("codec", COMPRESSED)
def test_damaged_data_raises_one_exception_type(codec: CompressionType) -> None:
    rng = random.Random(int(codec))
    failures = 0
    for _ in range(1500):
        data = bytearray(compress(codec, rng.randbytes(50) * rng.randrange(1, 40)))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        try:
            assert len(decompress_all(codec, data, 1 << 20)) <= 1 << 20
        except CompressionError:
            failures += 1
    assert failures > 300


@given(st.sampled_from(COMPRESSED), st.binary(max_size=100))
def test_any_bytes_raise_one_exception_type(codec: CompressionType, data: bytes) -> None:
    with contextlib.suppress(CompressionError):
        decompress_all(codec, data, 1 << 20)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_cut_off_data_is_an_error(codec: CompressionType) -> None:
    data = compress(codec, b"some text, " * 50)
    for size in range(len(data)):
        if codec is CompressionType.SNAPPY and 16 <= size < 20:
            # A header and fewer bytes than a length has, which Java ignores.
            assert decompress_all(codec, data[:size]) == b""
        elif codec is CompressionType.ZSTD and size == 0:
            assert decompress_all(codec, b"") == b""
        else:
            with pytest.raises(CompressionError):
                decompress_all(codec, data[:size])


@pytest.mark.parametrize("codec", CODECS)
def test_a_good_batch_after_a_bad_one(codec: CompressionType) -> None:
    """Whatever is kept from one batch to the next, nothing of a bad one stays."""
    first, second = random.Random(1).randbytes(300_000), b"second" * 1_000
    whole = compress(codec, first)
    for bad in (whole[:-5], whole[:1_000], b"\xff" * 50):
        with contextlib.suppress(CompressionError):
            decompress_all(codec, bad)
        assert decompress_all(codec, compress(codec, second)) == second
    with pytest.raises(CompressionError):
        decompress_all(codec, whole, limit=70_000)
    assert decompress_all(codec, whole) == first
