"""The batch view: every field at its place, patches that keep checksums true, hostile extents."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa.records import (
    HEADER_BYTES,
    NO_SEQUENCE,
    BatchBuilder,
    CompressionType,
    CorruptRecordsError,
    RecordBatch,
    RecordsError,
    TimestampType,
    assemble_batch,
    decrement_sequence,
    increment_sequence,
    iter_batches,
)
from tests.unit.records.samples import CODECS, NOW_MS, damaged, random_batch, simple_batch, with_crc


def header_only(**changes: int) -> bytearray:
    fields = {
        "base_offset": 0x0102030405060708,
        "partition_leader_epoch": 9,
        "attributes": 0,
        "last_offset_delta": 4,
        "base_timestamp": NOW_MS,
        "max_timestamp": NOW_MS + 5,
        "producer_id": 77,
        "producer_epoch": 3,
        "base_sequence": 11,
        "record_count": 5,
    }
    return assemble_batch((b"records",), **{**fields, **changes})


def test_fields() -> None:
    batch = RecordBatch(header_only())
    assert batch.base_offset == 0x0102030405060708
    assert batch.batch_length == HEADER_BYTES + 7 - 12
    assert batch.size_in_bytes == HEADER_BYTES + 7 == batch.end
    assert batch.partition_leader_epoch == 9
    assert batch.magic == 2
    assert batch.last_offset_delta == 4
    assert batch.last_offset == batch.base_offset + 4
    assert batch.next_offset == batch.base_offset + 5
    assert batch.base_timestamp == NOW_MS
    assert batch.max_timestamp == NOW_MS + 5
    assert (batch.producer_id, batch.producer_epoch) == (77, 3)
    assert (batch.base_sequence, batch.last_sequence) == (11, 15)
    assert batch.has_producer_id
    assert batch.record_count == 5
    assert bytes(batch.payload) == b"records"
    assert batch.is_valid_crc()
    assert "records=5" in repr(batch)


@pytest.mark.parametrize("codec", CODECS)
def test_codec_in_attributes(codec: CompressionType) -> None:
    batch = RecordBatch(header_only(attributes=codec))
    assert batch.compression_type is codec
    assert batch.is_compressed == (codec is not CompressionType.NONE)


def test_unknown_codec() -> None:
    for codec in (5, 6, 7):
        batch = RecordBatch(header_only(attributes=codec))
        with pytest.raises(CorruptRecordsError, match="unknown compression type"):
            _ = batch.compression_type


def test_flags() -> None:
    plain = RecordBatch(header_only())
    assert plain.timestamp_type is TimestampType.CREATE_TIME
    assert not plain.is_transactional
    assert not plain.is_control
    assert not plain.has_delete_horizon
    assert plain.delete_horizon_ms is None
    flagged = RecordBatch(header_only(attributes=0x78))
    assert flagged.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert flagged.is_transactional
    assert flagged.is_control
    assert flagged.has_delete_horizon
    assert flagged.delete_horizon_ms == NOW_MS


def test_sequences_wrap() -> None:
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(2**31 - 2, 3) == 1
    assert increment_sequence(0, 2**31 - 1) == 2**31 - 1
    assert decrement_sequence(0, 1) == 2**31 - 1
    assert decrement_sequence(5, 5) == 0
    wrapping = RecordBatch(header_only(base_sequence=2**31 - 2))
    assert wrapping.last_sequence == 2
    assert RecordBatch(header_only(base_sequence=-1)).last_sequence == NO_SEQUENCE


def test_view_copies_nothing() -> None:
    data = bytearray(b"before" + header_only())
    batch = RecordBatch(data, 6)
    data[6 + HEADER_BYTES] = ord("R")
    assert bytes(batch.payload) == b"Records"
    assert bytes(batch.view) == bytes(data[6:])
    assert not batch.is_valid_crc()


def test_view_leaves_no_export_behind() -> None:
    data = header_only()
    batch = RecordBatch(data)
    assert batch.is_valid_crc()
    batch.set_base_offset(4)
    data += b"a bytearray with exported views cannot grow"


def test_offset_and_epoch_are_outside_the_checksum() -> None:
    data = header_only()
    batch = RecordBatch(data)
    crc = batch.crc
    before = bytes(data[16:])
    batch.place(100, 12)
    again = RecordBatch(data)
    for view in (batch, again):
        assert (view.base_offset, view.partition_leader_epoch, view.crc) == (100, 12, crc)
    assert again.is_valid_crc()
    assert bytes(data[16:]) == before
    batch.set_base_offset(500)
    assert batch.base_offset == RecordBatch(data).base_offset == 500
    assert RecordBatch(data).partition_leader_epoch == 12


def test_max_timestamp_renews_the_checksum() -> None:
    data = header_only(attributes=0x7FF4)
    batch = RecordBatch(data)
    batch.set_max_timestamp(TimestampType.LOG_APPEND_TIME, 42)
    again = RecordBatch(data)
    assert again.max_timestamp == 42
    assert again.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert again.attributes == batch.attributes == 0x7C
    assert again.is_valid_crc()
    batch.set_max_timestamp(TimestampType.CREATE_TIME, 42)
    assert RecordBatch(data).timestamp_type is TimestampType.CREATE_TIME
    assert RecordBatch(data).is_valid_crc()


def test_max_timestamp_as_it_is_changes_nothing() -> None:
    data = header_only(attributes=0x0100)
    before = bytes(data)
    RecordBatch(data).set_max_timestamp(TimestampType.CREATE_TIME, NOW_MS + 5)
    assert bytes(data) == before


def test_bytes_cannot_be_patched() -> None:
    with pytest.raises(TypeError):
        RecordBatch(bytes(header_only())).set_base_offset(1)


def test_ensure_valid() -> None:
    data = header_only()
    RecordBatch(data).ensure_valid()
    data[-1] ^= 1
    with pytest.raises(CorruptRecordsError, match="crc"):
        RecordBatch(data).ensure_valid()


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48, 2**31 - 1])
def test_impossible_length(length: int) -> None:
    data = header_only()
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptRecordsError):
        RecordBatch(data)


def test_other_magic() -> None:
    data = header_only()
    data[16] = 1
    with pytest.raises(CorruptRecordsError, match="magic"):
        RecordBatch(with_crc(data))


def test_too_short_for_a_header() -> None:
    for size in (0, 11, HEADER_BYTES - 1):
        with pytest.raises(CorruptRecordsError):
            RecordBatch(bytes(header_only())[:size])


def test_iterates_whole_batches_and_stops_at_a_partial_one() -> None:
    one, two = simple_batch(2), simple_batch(5)
    data = bytes(one + two)
    for size in range(len(data) + 1):
        counts = [batch.record_count for batch in iter_batches(data[:size])]
        assert counts == [2, 5][: (size >= len(one)) + (size == len(data))]
    assert [b.position for b in iter_batches(b"skipped" + data, 7)] == [7, 7 + len(one)]
    assert [b.record_count for b in iter_batches(data, 0, len(one))] == [2]


def test_iterating_over_a_corrupt_length() -> None:
    data = bytearray(simple_batch() + simple_batch())
    data[len(data) // 2 + 8 : len(data) // 2 + 12] = (10).to_bytes(4, "big")
    with pytest.raises(CorruptRecordsError):
        list(iter_batches(data))


def test_only_records_errors_escape_from_damaged_batches() -> None:
    rng = random.Random(7)
    for _ in range(500):
        data = bytes(damaged(random_batch(rng), rng))
        try:
            for batch in iter_batches(data):
                batch.is_valid_crc()
                _ = batch.compression_type, batch.last_sequence, batch.timestamp_type
        except RecordsError:
            pass


@given(st.binary(max_size=200))
def test_only_records_errors_escape_from_any_bytes(data: bytes) -> None:
    try:
        for batch in iter_batches(data):
            assert batch.size_in_bytes <= len(data)
    except RecordsError:
        pass


def test_builder_and_view_agree() -> None:
    builder = BatchBuilder(base_offset=10, partition_leader_epoch=4)
    builder.append(NOW_MS, None, b"x")
    assert RecordBatch(builder.build()).next_offset == 11
