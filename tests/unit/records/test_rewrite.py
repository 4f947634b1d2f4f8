"""Rewriting: bytes copied where they are canonical, records encoded anew where they are not."""

from __future__ import annotations

import pytest

from kaa.records import (
    CompressionType,
    InvalidRecordError,
    RecordBatch,
    TimestampType,
    decompress_chunks,
    encode_record,
    iter_records,
)
from kaa.records.rewrite import BatchRewriter
from tests.unit.records.samples import NOW_MS, expanded, simple_batch, with_records


def rewrite(
    data: bytearray,
    target: CompressionType,
    *,
    is_copy: bool,
    bytes_max: int = 1 << 20,
    level: int | None = None,
) -> RecordBatch | None:
    batch = RecordBatch(data)
    rewriter = BatchRewriter(batch, target, level, bytes_max)
    for chunk in decompress_chunks(batch.compression_type, batch.payload):
        rewriter.copy(chunk)
    return rewriter.finish(
        is_copy=is_copy, timestamp_type=TimestampType.CREATE_TIME, max_timestamp=NOW_MS
    )


@pytest.mark.parametrize("is_copy", [False, True])
def test_copied_and_encoded_records_are_the_same(is_copy: bool) -> None:
    data = simple_batch(500, CompressionType.LZ4)
    batch = rewrite(data, CompressionType.GZIP, is_copy=is_copy)
    assert batch is not None
    assert batch.is_valid_crc()
    assert batch.max_timestamp == NOW_MS
    assert expanded(bytearray(batch.view)) == expanded(data)


def test_offsets_and_base_timestamp_begin_anew() -> None:
    records = encode_record(3, 10, b"a", None) + encode_record(9, 15, b"b", None)
    batch = rewrite(with_records(simple_batch(2), records), CompressionType.ZSTD, is_copy=False)
    assert batch is not None
    assert batch.base_timestamp == NOW_MS + 10
    read = [(r.offset, r.timestamp, r.key) for r in iter_records(batch)]
    assert read == [(0, NOW_MS + 10, b"a"), (1, NOW_MS + 15, b"b")]


def test_level() -> None:
    data = simple_batch(2000)
    sizes = []
    for level in (1, 9):
        batch = rewrite(data, CompressionType.GZIP, is_copy=True, level=level)
        assert batch is not None
        sizes.append(batch.size_in_bytes)
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize("is_copy", [False, True])
def test_too_large(is_copy: bool) -> None:
    data = simple_batch(1000, CompressionType.ZSTD)
    size = 61 + len(expanded(data))
    assert rewrite(data, CompressionType.NONE, is_copy=is_copy, bytes_max=size) is not None
    assert rewrite(data, CompressionType.NONE, is_copy=is_copy, bytes_max=size - 1) is None
    assert rewrite(data, CompressionType.NONE, is_copy=is_copy, bytes_max=100) is None


def test_timestamps_that_cannot_be_written() -> None:
    data = with_records(simple_batch(1), encode_record(0, -2 - NOW_MS, None, None))
    with pytest.raises(InvalidRecordError, match="timestamp"):
        rewrite(data, CompressionType.GZIP, is_copy=False)


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (21, b"\x00\x10"),
        (43, b"\x00" * 8 + b"\xff\xff" + b"\x00" * 4),
        (43, b"\xfe" + b"\xff" * 13),
    ],
)
def test_producer_states_that_cannot_be_written(position: int, value: bytes) -> None:
    data = simple_batch(1)
    data[position : position + len(value)] = value
    with pytest.raises(InvalidRecordError, match="producer"):
        rewrite(data, CompressionType.GZIP, is_copy=True)
