"""Messages of magic 0 and 1: plain and compressed ones, old bugs of lz4, upgrades, damage."""

from __future__ import annotations

import contextlib
import random
import zlib

import pytest

from kaa.records import (
    BatchBuilder,
    CompressionError,
    CompressionType,
    CorruptRecordsError,
    InvalidRecordError,
    LegacyBatch,
    RecordBatch,
    RecordsError,
    TimestampType,
    compress,
    iter_any_batches,
    iter_legacy_records,
    iter_records,
    upgrade_batch,
)
from kaa.records.legacy import iter_upgraded_batches
from tests.unit.records.samples import simple_batch

OLD_CODECS = (CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4)


def sized(field: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if field is None else len(field).to_bytes(4, "big") + field


def message(
    magic: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    timestamp: int = 0,
    attributes: int = 0,
) -> bytes:
    body = bytes((magic, attributes))
    body += timestamp.to_bytes(8, "big", signed=True) if magic == 1 else b""
    body += sized(key) + sized(value)
    checked = zlib.crc32(body).to_bytes(4, "big") + body
    return offset.to_bytes(8, "big") + len(checked).to_bytes(4, "big") + checked


def wrapped(
    magic: int,
    codec: CompressionType,
    last_offset: int,
    inner: bytes,
    attributes: int = 0,
    timestamp: int = 99,
) -> bytes:
    value = compress(codec, inner)
    if codec is CompressionType.LZ4 and magic == 0:
        # Writers of magic 0 computed the checksum of the frame header over the magic as well.
        value = value[:6] + bytes((value[6] ^ 0x55,)) + value[7:]
    return message(magic, last_offset, None, value, timestamp, attributes | codec)


def test_plain_messages() -> None:
    for magic, timestamp in ((0, -1), (1, 1234)):
        batch = LegacyBatch(b"before" + message(magic, 17, b"k", b"vv", 1234), 6)
        assert (batch.magic, batch.base_offset, batch.last_offset) == (magic, 17, 17)
        assert batch.next_offset == 18
        assert batch.end == 6 + batch.size_in_bytes == 6 + len(batch.view)
        assert batch.max_timestamp == timestamp
        assert batch.is_valid_crc()
        assert not batch.is_compressed
        (record,) = iter_legacy_records(batch)
        assert record[:4] == (17, timestamp, b"k", b"vv")


def test_what_old_magics_do_not_have() -> None:
    batch = LegacyBatch(message(1, 0, None, None))
    assert batch.partition_leader_epoch == batch.producer_id == batch.base_sequence == -1
    assert not any((batch.is_control, batch.is_transactional, batch.has_producer_id))
    assert batch.delete_horizon_ms is None


def test_timestamp_types() -> None:
    assert LegacyBatch(message(0, 0, None, None)).timestamp_type is None
    assert LegacyBatch(message(1, 0, None, None)).timestamp_type is TimestampType.CREATE_TIME
    append = LegacyBatch(message(1, 0, None, None, attributes=8))
    assert append.timestamp_type is TimestampType.LOG_APPEND_TIME


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_compressed_messages(codec: CompressionType) -> None:
    absolute = b"".join(message(0, 50 + index, None, b"v%d" % index) for index in range(4))
    old = LegacyBatch(wrapped(0, codec, 53, absolute))
    assert (old.base_offset, old.last_offset) == (50, 53)
    assert [record.offset for record in iter_legacy_records(old)] == [50, 51, 52, 53]
    relative = b"".join(message(1, index, None, b"v%d" % index, 7 + index) for index in range(4))
    new = LegacyBatch(wrapped(1, codec, 53, relative))
    assert [record[:2] for record in iter_legacy_records(new)] == [
        (50, 7),
        (51, 8),
        (52, 9),
        (53, 10),
    ]
    append = LegacyBatch(wrapped(1, codec, 53, relative, attributes=8))
    assert {record.timestamp for record in iter_legacy_records(append)} == {99}


def test_a_partial_message_at_the_end_of_a_set_is_dropped() -> None:
    inner = message(1, 0, None, b"a") + message(1, 1, None, b"b")
    batch = LegacyBatch(wrapped(1, CompressionType.GZIP, 0, inner[:-1]))
    assert [record.value for record in iter_legacy_records(batch)] == [b"a"]


def test_malformed_sets() -> None:
    plain = message(1, 5, None, b"a")
    for inner, last_offset in (
        (b"", 5),
        (plain, 4),
        (wrapped(1, CompressionType.GZIP, 0, plain), 5),
    ):
        with pytest.raises(InvalidRecordError):
            list(
                iter_legacy_records(
                    LegacyBatch(wrapped(1, CompressionType.GZIP, last_offset, inner))
                )
            )
    with pytest.raises(CorruptRecordsError):
        list(iter_legacy_records(LegacyBatch(wrapped(1, CompressionType.GZIP, 1, bytes(20)))))
    with pytest.raises(InvalidRecordError, match="zstd"):
        list(iter_legacy_records(LegacyBatch(message(1, 0, None, b"", attributes=4))))
    with pytest.raises(InvalidRecordError, match="without value"):
        list(iter_legacy_records(LegacyBatch(message(1, 0, None, None, attributes=1))))
    with pytest.raises(CorruptRecordsError, match="unknown"):
        list(iter_legacy_records(LegacyBatch(message(1, 0, None, b"", attributes=5))))


def test_expansion_is_bounded() -> None:
    batch = LegacyBatch(wrapped(1, CompressionType.GZIP, 0, message(1, 0, None, bytes(10_000))))
    assert len(list(iter_legacy_records(batch, 20_000))) == 1
    with pytest.raises(CompressionError, match="beyond"):
        list(iter_legacy_records(batch, 10_000))


def test_fields_beyond_the_message() -> None:
    data = bytearray(message(0, 0, b"key", b"value"))
    data[18:22] = (1000).to_bytes(4, "big")
    with pytest.raises(InvalidRecordError):
        list(iter_legacy_records(LegacyBatch(data)))
    data[18:22] = (12).to_bytes(4, "big")
    with pytest.raises(InvalidRecordError):
        list(iter_legacy_records(LegacyBatch(data)))


@pytest.mark.parametrize("data", [b"", bytes(17), bytes(26), bytes(11) + b"\x0e" + bytes(13)])
def test_no_message(data: bytes) -> None:
    with pytest.raises(CorruptRecordsError):
        LegacyBatch(data)
    with pytest.raises(CorruptRecordsError):
        LegacyBatch(simple_batch())


def test_all_magics_in_one_log() -> None:
    data = message(0, 0, None, b"a") + message(1, 1, None, b"b") + bytes(simple_batch(2))
    for size in (len(data), len(data) - 1):
        magics = [batch.magic for batch in iter_any_batches(data[:size])]
        assert magics == [0, 1, 2][: 3 - (size < len(data))]
    with pytest.raises(CorruptRecordsError):
        list(iter_any_batches(data + bytes(20)))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_upgrade(magic: int, codec: CompressionType) -> None:
    first = 0 if magic == 1 else 60
    inner = b"".join(message(magic, first + 2 * i, b"k", b"v%d" % i, 5 + i) for i in range(3))
    old = LegacyBatch(wrapped(magic, codec, 64, inner))
    batch = RecordBatch(upgrade_batch(old))
    assert batch.is_valid_crc()
    assert batch.compression_type is codec
    assert (batch.base_offset, batch.last_offset) == (60, 64)
    assert [r[:4] for r in iter_records(batch)] == [r[:4] for r in iter_legacy_records(old)]


def test_upgrade_keeps_append_time() -> None:
    batch = RecordBatch(upgrade_batch(LegacyBatch(message(1, 3, None, b"v", 77, 8))))
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert batch.max_timestamp == 77


def test_upgrade_of_what_magic_2_cannot_hold() -> None:
    with pytest.raises(InvalidRecordError):
        upgrade_batch(LegacyBatch(message(1, 3, None, b"v", -5)))
    inner = message(1, 3, None, b"v") + message(1, 3, None, b"v")
    with pytest.raises(InvalidRecordError):
        upgrade_batch(LegacyBatch(wrapped(1, CompressionType.GZIP, 3, inner)))


def test_only_records_errors_escape_from_damage() -> None:
    rng = random.Random(2)
    for _ in range(1500):
        magic = rng.randrange(2)
        inner = b"".join(message(magic, i, None, rng.randbytes(9)) for i in range(3))
        data = bytearray(wrapped(magic, rng.choice(OLD_CODECS), 2, inner))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with contextlib.suppress(RecordsError):
            for batch in iter_any_batches(data):
                batch.is_valid_crc()
                if isinstance(batch, LegacyBatch):
                    assert batch.base_offset is not None
                    upgrade_batch(batch)


def test_builder_writes_magic_2_only() -> None:
    builder = BatchBuilder()
    builder.append(1, None, b"x")
    assert [batch.magic for batch in iter_any_batches(builder.build())] == [2]


def test_all_magics_as_batches_of_magic_2() -> None:
    old = message(0, 3, b"k", b"v") + message(1, 4, b"k", b"w", 7)
    found = list(iter_upgraded_batches(old + simple_batch()))
    assert [batch.magic for batch in found] == [2, 2, 2]
    assert [batch.base_offset for batch in found] == [3, 4, 0]
    assert [record.value for batch in found[:2] for record in iter_records(batch)] == [b"v", b"w"]
