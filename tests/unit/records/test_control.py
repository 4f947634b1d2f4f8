"""Control batches: layouts of keys and markers, and what is not a marker."""

from __future__ import annotations

import pytest

from kaa.records import (
    BatchBuilder,
    ControlRecordType,
    EndTransactionMarker,
    InvalidRecordError,
    RecordBatch,
    build_control_batch,
    build_end_transaction_batch,
    decode_control_key,
    iter_records,
    read_end_transaction_marker,
)
from kaa.records.control import decode_end_transaction_value, encode_control_key
from tests.unit.records.samples import NOW_MS


@pytest.mark.parametrize("kind", [ControlRecordType.ABORT, ControlRecordType.COMMIT])
def test_marker(kind: ControlRecordType) -> None:
    marker = EndTransactionMarker(kind, 12)
    batch = RecordBatch(
        build_end_transaction_batch(
            marker,
            producer_id=9,
            producer_epoch=4,
            timestamp=NOW_MS,
            base_offset=70,
            partition_leader_epoch=3,
        )
    )
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 4, -1)
    assert (batch.base_offset, batch.partition_leader_epoch) == (70, 3)
    assert read_end_transaction_marker(batch) == marker
    (record,) = iter_records(batch)
    assert (record.key, record.value) == (bytes((0, 0, 0, kind)), b"\0\0\0\0\0\x0c")


def test_only_abort_and_commit_end_a_transaction() -> None:
    marker = EndTransactionMarker(ControlRecordType.LEADER_CHANGE, 1)
    with pytest.raises(ValueError, match="LEADER_CHANGE"):
        build_end_transaction_batch(marker, producer_id=1, producer_epoch=0, timestamp=0)


def test_control_batch_of_the_quorum() -> None:
    data = build_control_batch(
        ControlRecordType.LEADER_CHANGE,
        b"message",
        timestamp=NOW_MS,
        base_offset=4,
        partition_leader_epoch=6,
    )
    batch = RecordBatch(data)
    assert batch.is_control
    assert not batch.is_transactional
    assert not batch.has_producer_id
    (record,) = iter_records(batch)
    assert decode_control_key(record.key) is ControlRecordType.LEADER_CHANGE
    assert record.value == b"message"
    assert read_end_transaction_marker(batch) is None


def test_keys() -> None:
    for kind in ControlRecordType:
        if kind is not ControlRecordType.UNKNOWN:
            assert decode_control_key(encode_control_key(kind)) is kind
    with pytest.raises(ValueError, match="unknown"):
        encode_control_key(ControlRecordType.UNKNOWN)
    assert decode_control_key(b"\0\0\0\x63") is ControlRecordType.UNKNOWN
    assert decode_control_key(b"\0\x05\0\x01and more") is ControlRecordType.COMMIT


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_malformed_keys(key: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        decode_control_key(key)


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0", b"\xff\xff\0\0\0\0"])
def test_malformed_marker_values(value: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        decode_end_transaction_value(value)


def test_newer_marker_versions_are_read_as_the_first() -> None:
    assert decode_end_transaction_value(b"\0\x07\0\0\1\0rest") == 256


def test_an_empty_control_batch_has_no_marker() -> None:
    builder = BatchBuilder(is_control=True)
    builder.append(1, None, None)
    data = builder.build()
    data[57:61] = bytes(4)
    assert read_end_transaction_marker(RecordBatch(data)) is None
