"""The builder: fields of the header, codecs, and refusals of wrong use."""

from __future__ import annotations

import pytest

from kaa.records import (
    BatchBuilder,
    CompressionType,
    RecordBatch,
    TimestampType,
    assemble_batch,
    batch_attributes,
    iter_records,
)
from tests.unit.records.samples import CODECS, NOW_MS


def test_known_bytes() -> None:
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", b"v", [("h", b"\1")])
    builder.append(NOW_MS + 5, None, b"vw")
    assert builder.build().hex() == (
        "0000000000000000"
        "00000047"
        "ffffffff"
        "02"
        "7c99543c"
        "0000"
        "00000001"
        "0000018bcfe56800"
        "0000018bcfe56805"
        "ffffffffffffffff"
        "ffff"
        "ffffffff"
        "00000002"
        "18000000026b02760202680201"
        "10000a020104767700"
    )


def test_all_fields() -> None:
    builder = BatchBuilder(
        base_offset=1000,
        partition_leader_epoch=7,
        producer_id=5,
        producer_epoch=2,
        base_sequence=9,
        is_transactional=True,
    )
    builder.append(NOW_MS + 10, b"a", None)
    builder.append(NOW_MS, None, b"b")
    batch = RecordBatch(builder.build())
    assert batch.is_valid_crc()
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (1000, 1001, 2)
    assert batch.partition_leader_epoch == 7
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 2, 9)
    assert (batch.base_timestamp, batch.max_timestamp) == (NOW_MS + 10, NOW_MS + 10)
    assert batch.is_transactional
    assert not batch.is_control
    assert [r.timestamp for r in iter_records(batch)] == [NOW_MS + 10, NOW_MS]


@pytest.mark.parametrize("codec", CODECS)
def test_codecs(codec: CompressionType) -> None:
    builder = BatchBuilder(compression_type=codec)
    for index in range(3000):
        assert builder.append(NOW_MS, b"key", b"value %d" % index) > 15
    batch = RecordBatch(builder.build())
    assert batch.compression_type is codec
    assert batch.is_valid_crc()
    assert batch.size_in_bytes <= builder.size_in_bytes
    assert [r.value for r in iter_records(batch)][::2999] == [b"value 0", b"value 2999"]


def test_append_time() -> None:
    builder = BatchBuilder(timestamp_type=TimestampType.LOG_APPEND_TIME, append_time_ms=NOW_MS)
    builder.append(5, None, b"")
    batch = RecordBatch(builder.build())
    assert (batch.base_timestamp, batch.max_timestamp) == (5, NOW_MS)
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_delete_horizon_is_the_base_timestamp() -> None:
    builder = BatchBuilder(delete_horizon_ms=NOW_MS)
    builder.append(5, None, None)
    batch = RecordBatch(builder.build())
    assert batch.delete_horizon_ms == batch.base_timestamp == NOW_MS
    assert [r.timestamp for r in iter_records(batch)] == [5]


def test_offsets_with_gaps_and_a_kept_end() -> None:
    builder = BatchBuilder(base_offset=10)
    builder.append(1, None, b"a", offset=12)
    builder.append(2, None, b"b", offset=15)
    batch = RecordBatch(builder.build(last_offset=20))
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (10, 20, 2)
    assert [r.offset for r in iter_records(batch)] == [12, 15]


def test_no_records_make_no_batch() -> None:
    assert BatchBuilder().build() == b""


def test_records_without_timestamp() -> None:
    builder = BatchBuilder()
    builder.append(-1, None, b"a")
    batch = RecordBatch(builder.build())
    assert (batch.base_timestamp, batch.max_timestamp) == (-1, -1)


def test_wrong_use() -> None:
    builder = BatchBuilder(base_offset=5)
    with pytest.raises(ValueError, match="does not follow"):
        builder.append(1, None, b"", offset=4)
    with pytest.raises(ValueError, match="negative"):
        builder.append(-2, None, b"")
    with pytest.raises(ValueError, match="too far"):
        builder.append(1, None, b"", offset=5 + 2**31)
    with pytest.raises(ValueError, match="producer id"):
        BatchBuilder(is_transactional=True)
    with pytest.raises(ValueError, match="epoch"):
        BatchBuilder(producer_id=1, base_sequence=0)
    with pytest.raises(ValueError, match="sequence"):
        BatchBuilder(producer_id=1, producer_epoch=0)


def test_producer_state_may_come_late() -> None:
    builder = BatchBuilder()
    builder.append(1, None, b"a")
    builder.set_producer_state(3, 1, 44, True)
    batch = RecordBatch(builder.build())
    assert (batch.producer_id, batch.base_sequence, batch.is_transactional) == (3, 44, True)


def test_attributes() -> None:
    plain = batch_attributes(CompressionType.NONE, TimestampType.CREATE_TIME)
    full = batch_attributes(
        CompressionType.ZSTD,
        TimestampType.LOG_APPEND_TIME,
        is_transactional=True,
        is_control=True,
        has_delete_horizon=True,
    )
    assert (plain, full) == (0, 0x7C)


def test_assembled_payload_may_come_in_parts() -> None:
    fields = {
        "base_offset": 0,
        "partition_leader_epoch": -1,
        "attributes": 0,
        "last_offset_delta": 0,
        "base_timestamp": 0,
        "max_timestamp": 0,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "record_count": 1,
    }
    assert assemble_batch((b"ab", b"c"), **fields) == assemble_batch((b"abc",), **fields)
