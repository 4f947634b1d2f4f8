from __future__ import annotations

import pytest

from kaa.client.consumer.fetched import FetchedRecords, next_fetch_offset
from kaa.records import BatchBuilder, CompressionType
from kaa.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_batch,
)
from kaa.records.errors import RecordsError


def batch(base_offset: int, count: int, producer_id: int = -1) -> bytes:
    builder = BatchBuilder(
        base_offset=base_offset,
        compression_type=CompressionType.LZ4,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=base_offset if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )
    for number in range(count):
        builder.append(1, None, b"%d" % (base_offset + number))
    return bytes(builder.build())


def marker(offset: int, producer_id: int, kind: ControlRecordType) -> bytes:
    return bytes(
        build_end_transaction_batch(
            EndTransactionMarker(kind, 0),
            producer_id=producer_id,
            producer_epoch=0,
            base_offset=offset,
            timestamp=1,
        )
    )


def offsets(fetched: FetchedRecords, count_max: int = 1000) -> list[int]:
    found: list[int] = []
    while records := fetched.take(count_max):
        found += [record.offset for record in records]
    return found


def test_records_from_the_position_on() -> None:
    data = batch(0, 10) + batch(10, 5)
    assert offsets(FetchedRecords(data, 7)) == list(range(7, 15))
    assert next_fetch_offset(data, 7) == 15


def test_partial_batch_at_the_end_is_left() -> None:
    data = batch(0, 10) + batch(10, 5)[:-1]
    assert offsets(FetchedRecords(data, 0)) == list(range(10))
    assert next_fetch_offset(data, 0) == 10
    assert next_fetch_offset(b"", 3) == 3


def test_no_more_than_asked_for_and_the_position_follows() -> None:
    fetched = FetchedRecords(batch(0, 10), 0)
    assert [record.offset for record in fetched.take(4)] == [0, 1, 2, 3]
    assert fetched.next_offset == 4
    assert offsets(fetched, 4) == list(range(4, 10))
    assert fetched.next_offset == 10


TRANSACTIONS = (
    batch(0, 2, producer_id=1)
    + batch(2, 2, producer_id=2)
    + marker(4, 1, ControlRecordType.ABORT)
    + batch(5, 1, producer_id=1)
    + marker(6, 1, ControlRecordType.COMMIT)
    + marker(7, 2, ControlRecordType.COMMIT)
    + batch(8, 1)
)


def test_aborted_transactions_are_hidden_and_markers_always() -> None:
    committed = FetchedRecords(TRANSACTIONS, 0, aborted=[(0, 1)])
    assert offsets(committed) == [2, 3, 5, 8]
    assert committed.next_offset == 9
    assert offsets(FetchedRecords(TRANSACTIONS, 0)) == [0, 1, 2, 3, 5, 8]


def test_nobody_gets_past_a_damaged_batch() -> None:
    broken = bytearray(batch(10, 5))
    broken[-1] ^= 1
    fetched = FetchedRecords(batch(0, 10) + bytes(broken) + batch(15, 5), 0)
    assert len(fetched.take(100)) == 10
    for _ in range(2):
        with pytest.raises(RecordsError):
            fetched.take(100)
    assert fetched.next_offset == 10
