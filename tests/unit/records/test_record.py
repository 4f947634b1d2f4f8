"""Records: known bytes, round trips through every codec, every way a record can be malformed."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given

from kaa.records import (
    BatchBuilder,
    CompressionError,
    CompressionType,
    InvalidRecordError,
    Record,
    RecordBatch,
    RecordsError,
    TimestampType,
    iter_records,
)
from kaa.records import record as record_module
from kaa.records._pure_objects import wrap_int64
from kaa.records.varint import encode_varint
from tests.unit.records.samples import (
    CODECS,
    DECODERS,
    NOW_MS,
    NewRecord,
    build,
    codecs,
    damaged,
    expanded,
    random_batch,
    record_lists,
    simple_batch,
    with_records,
)


@pytest.fixture(params=DECODERS.values(), ids=list(DECODERS), autouse=True)
def decode_records(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test of this file runs on each kernel there is."""
    monkeypatch.setattr(record_module, "decode_records", request.param)


@given(record_lists, codecs)
def test_round_trip(records: list[NewRecord], codec: CompressionType) -> None:
    read = list(iter_records(RecordBatch(build(records, codec))))
    assert read == [
        Record(index, timestamp, key, value, tuple(headers))
        for index, (timestamp, key, value, headers) in enumerate(records)
    ]


def test_offsets_and_sequences() -> None:
    builder = BatchBuilder(
        base_offset=100, producer_id=1, producer_epoch=0, base_sequence=2**31 - 1
    )
    builder.append(NOW_MS, None, b"a")
    builder.append(NOW_MS, None, b"b", offset=103)
    records = list(iter_records(RecordBatch(builder.build())))
    assert [record.offset for record in records] == [100, 103]
    assert [record.sequence for record in records] == [2**31 - 1, 2]


def test_append_time_stands_for_every_timestamp() -> None:
    builder = BatchBuilder(timestamp_type=TimestampType.LOG_APPEND_TIME, append_time_ms=55)
    builder.append(1, None, b"a")
    builder.append(2, None, b"b")
    assert [r.timestamp for r in iter_records(RecordBatch(builder.build()))] == [55, 55]


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_across_many_chunks(codec: CompressionType) -> None:
    value = random.Random(3).randbytes(500_000)
    data = build([(1, None, value, ()), (2, b"k", b"v", ()), (3, None, value, ())], codec)
    assert [record.value for record in iter_records(RecordBatch(data))] == [value, b"v", value]


def test_records_are_expanded_as_they_are_asked_for() -> None:
    data = build([(1, None, bytes(1 << 20), ()) for _ in range(20)], CompressionType.ZSTD)
    records = iter_records(RecordBatch(data))
    assert next(records).offset == 0


def test_a_record_above_the_bound() -> None:
    data = build([(1, None, bytes(200_000), ())], CompressionType.GZIP)
    assert len(list(iter_records(RecordBatch(data), 200_008))) == 1
    with pytest.raises(CompressionError, match="exceeds"):
        list(iter_records(RecordBatch(data), 200_007))


@pytest.mark.parametrize("codec", CODECS)
def test_an_empty_batch_has_no_records(codec: CompressionType) -> None:
    data = simple_batch(1, codec)
    data[57:61] = bytes(4)
    assert list(iter_records(RecordBatch(data))) == []


@pytest.mark.parametrize("codec", CODECS)
def test_wrong_counts(codec: CompressionType) -> None:
    for count in (-1, 2, 4, 2**31 - 1):
        data = simple_batch(3, codec)
        data[57:61] = count.to_bytes(4, "big", signed=True)
        with pytest.raises(InvalidRecordError):
            list(iter_records(RecordBatch(data)))


def body(*parts: bytes) -> bytes:
    joined = b"".join(parts)
    return encode_varint(len(joined)) + joined


NULL = encode_varint(-1)
HEAD = b"\0\0\0"
MALFORMED = {
    "no bytes": b"",
    "no content": body(),
    "negative length": encode_varint(-5) + bytes(20),
    "length beyond the data": encode_varint(50) + bytes(20),
    "length that never ends": b"\xff" * 10,
    "length above the fields": body(HEAD, NULL, NULL, b"\0", b"more"),
    "length below the fields": encode_varint(4) + HEAD + NULL + NULL + b"\0",
    "timestamp that never ends": body(b"\0", b"\xff" * 11, bytes(10)),
    "offset that never ends": body(b"\0\0", b"\xff" * 6, bytes(10)),
    "key beyond the record": body(HEAD, encode_varint(30), b"abc"),
    "value beyond the record": body(HEAD, NULL, encode_varint(30), b"abc"),
    "missing header count": body(HEAD, NULL, NULL),
    "negative header count": body(HEAD, NULL, NULL, encode_varint(-1)),
    "more headers than bytes": body(HEAD, NULL, NULL, encode_varint(1000)),
    "header without key": body(HEAD, NULL, NULL, encode_varint(1), NULL, NULL),
    "header key beyond the record": body(HEAD, NULL, NULL, b"\2", encode_varint(9), b"a"),
    "header value beyond the record": body(HEAD, NULL, NULL, b"\2\0", encode_varint(9), b"a"),
    "second header missing": body(HEAD, NULL, NULL, b"\4\0\1"),
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("records", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_records(codec: CompressionType, records: bytes) -> None:
    data = with_records(simple_batch(1, codec), records)
    with pytest.raises(InvalidRecordError):
        list(iter_records(RecordBatch(data)))


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_behind_the_last_record(codec: CompressionType) -> None:
    batch = simple_batch(2, codec)
    with pytest.raises(InvalidRecordError):
        list(iter_records(RecordBatch(with_records(batch, expanded(batch) + b"\0"))))


def test_any_negative_length_stands_for_null() -> None:
    records = body(HEAD, encode_varint(-7), encode_varint(-(2**31)), b"\2\2h", encode_varint(-3))
    (record,) = iter_records(RecordBatch(with_records(simple_batch(1), records)))
    assert (record.key, record.value, record.headers) == (None, None, (("h", None),))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"\xffa", "�a"),
        (b"a\xc3", "a�"),
        (b"\xf0\x9f\x98", "�"),
        (b"\xc0\x80", "��"),
        (b"\xed\xa0\x80b", "�b"),
        (b"\xed\xbf", "�"),
        (b"\xc3\xa9\xed\xa0\x80\xed\xb0\x80", "\u00e9��"),
    ],
)
def test_header_keys_that_are_no_utf8(key: bytes, text: str) -> None:
    records = body(HEAD, NULL, NULL, b"\2", encode_varint(len(key)), key, NULL)
    (record,) = iter_records(RecordBatch(with_records(simple_batch(1), records)))
    assert record.headers == ((text, None),)


def test_arithmetic_wraps_as_in_java() -> None:
    assert wrap_int64(2**63) == -(2**63)
    assert wrap_int64(-(2**63) - 1) == 2**63 - 1
    records = body(b"\0", encode_varint(2**63 - 1), encode_varint(-1), NULL, NULL, b"\0")
    batch = with_records(simple_batch(1), records)
    (record,) = iter_records(RecordBatch(batch))
    assert record.timestamp == wrap_int64(NOW_MS + 2**63 - 1) < 0
    assert record.offset == -1


def test_only_records_errors_escape_from_damaged_batches() -> None:
    rng = random.Random(11)
    for _ in range(800):
        data = damaged(random_batch(rng), rng)
        with contextlib.suppress(RecordsError):
            assert len(list(iter_records(RecordBatch(data)))) == RecordBatch(data).record_count
