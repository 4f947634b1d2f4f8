from __future__ import annotations

import pytest

from kaa.coordinators.transaction.machine import RECORD_TYPES
from kaa.coordinators.transaction.records import (
    tombstone,
    transaction_of_record,
    transaction_record,
)
from kaa.coordinators.transaction.state import Transaction, TransactionState
from kaa.wire.messages.transaction_log import TransactionLogKey, TransactionLogValue
from tests.oracle import Oracle

OPEN = Transaction(
    producer_id=2**40,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=frozenset({("a", 0), ("a", 5), ("b", 1)}),
    start_timestamp_ms=1_000,
    update_timestamp_ms=2_000,
    previous_producer_id=2**40,
    client_transaction_version=2,
)
TRANSACTIONS = {
    "open": OPEN,
    "empty": OPEN._replace(
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        start_timestamp_ms=-1,
        previous_producer_id=-1,
    ),
    "rotating": OPEN._replace(state=TransactionState.PREPARE_COMMIT, next_producer_id=77),
    "taken over": OPEN._replace(next_producer_epoch=4),
}


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_a_record_says_everything_but_the_last_epoch(name: str) -> None:
    transaction = TRANSACTIONS[name]
    record = transaction_record("id", transaction, 2)
    found = RECORD_TYPES.decode(*record.encode())
    assert found is not None
    key, value = found
    assert isinstance(key, TransactionLogKey)
    assert isinstance(value, TransactionLogValue)
    assert (key.transactional_id, transaction_of_record(value, -1)) == ("id", transaction)


def test_before_version_1_there_are_no_tagged_fields() -> None:
    record = transaction_record("id", OPEN, 0)
    assert record.value_version == 0
    found = RECORD_TYPES.decode(*record.encode())
    assert found is not None
    value = found[1]
    assert isinstance(value, TransactionLogValue)
    known = transaction_of_record(value, 2)
    assert known == OPEN._replace(
        previous_producer_id=-1, client_transaction_version=0, last_producer_epoch=2
    )


def test_a_tombstone_has_no_value() -> None:
    assert tombstone("id").encode()[1] is None


@pytest.mark.oracle
@pytest.mark.parametrize("name", TRANSACTIONS)
def test_kafka_reads_the_same(oracle: Oracle, name: str) -> None:
    record = transaction_record("id", TRANSACTIONS[name], 2)
    data = record.encode()[1]
    assert data is not None
    read = oracle.read_message("TransactionLogValue", 1, data[2:])
    assert (read.data, read.remaining) == (data[2:], 0)
    assert read.json["producerId"] == 2**40
    assert read.json["transactionStatus"] == TRANSACTIONS[name].state
