from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.unit.handlers.support import Node
from tests.unit.handlers.transaction_requests import NAME, TOPIC, TransactionalProducer


@pytest.fixture
def coordinator(node: Node) -> Node:
    node.create_topic(TOPIC, 2)
    node.load_transactions()
    return node


def transaction(
    producer: TransactionalProducer, *partitions: int, verify_only: bool = False
) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=producer.name,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=list(partitions))],
    )


def asked(
    node: Node, *transactions: AddPartitionsToTxnTransaction, version: int = 5
) -> dict[str, dict[int, Errors]]:
    answer = node.ask(AddPartitionsToTxnRequest(transactions=list(transactions)), version)
    assert answer.error_code == Errors.NONE
    return {
        result.transactional_id: {
            one.partition_index: Errors.of(one.partition_error_code)
            for topic in result.topic_results
            for one in topic.results_by_partition
        }
        for result in answer.results_by_transaction
    }


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_clients_name_one_transaction(coordinator: Node, version: int) -> None:
    producer = TransactionalProducer(coordinator, version=0).started()
    assert producer.add((TOPIC, 0), version=version) is Errors.NONE
    assert producer.add((TOPIC, 0), (TOPIC, 1), version=version) is Errors.NONE


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_ask_for_many(coordinator: Node, version: int) -> None:
    one = TransactionalProducer(coordinator).started()
    other = TransactionalProducer(coordinator, "other").started()
    found = asked(coordinator, transaction(one, 0), transaction(other, 0, 1), version=version)
    assert found == {
        NAME: {0: Errors.NONE},
        "other": {0: Errors.NONE, 1: Errors.NONE},
    }


def test_to_verify_changes_nothing(coordinator: Node) -> None:
    producer = TransactionalProducer(coordinator).started()
    missing = {NAME: {0: Errors.TRANSACTION_ABORTABLE}}
    assert asked(coordinator, transaction(producer, 0, verify_only=True)) == missing
    asked(coordinator, transaction(producer, 0))
    assert asked(coordinator, transaction(producer, 0, 1, verify_only=True)) == {
        NAME: {0: Errors.NONE, 1: Errors.TRANSACTION_ABORTABLE}
    }


def test_a_missing_partition_keeps_the_others_out(coordinator: Node) -> None:
    producer = TransactionalProducer(coordinator).started()
    assert asked(coordinator, transaction(producer, 0, 7)) == {
        NAME: {0: Errors.OPERATION_NOT_ATTEMPTED, 7: Errors.UNKNOWN_TOPIC_OR_PARTITION}
    }


@pytest.mark.parametrize(
    ("version", "error"), [(1, Errors.INVALID_PRODUCER_EPOCH), (2, Errors.PRODUCER_FENCED)]
)
def test_a_replaced_producer(coordinator: Node, version: int, error: Errors) -> None:
    producer = TransactionalProducer(coordinator).started()
    TransactionalProducer(coordinator).started()
    assert producer.add((TOPIC, 0), version=version) is error


def test_a_producer_that_is_not_known(coordinator: Node) -> None:
    producer = TransactionalProducer(coordinator, "nobody")
    assert producer.add((TOPIC, 0)) is Errors.INVALID_PRODUCER_ID_MAPPING
    known = TransactionalProducer(coordinator).started()
    known.producer_id += 1
    assert known.add((TOPIC, 0)) is Errors.INVALID_PRODUCER_ID_MAPPING
    assert TransactionalProducer(coordinator, "").add((TOPIC, 0)) is Errors.INVALID_REQUEST


def test_a_transaction_that_is_being_ended(coordinator: Node) -> None:
    producer = TransactionalProducer(coordinator, version=0).started()
    producer.produce()
    # Nothing runs before the next request but what the end itself needs.
    assert producer.end() is Errors.NONE
    first = producer.add((TOPIC, 1))
    assert first in {Errors.NONE, Errors.CONCURRENT_TRANSACTIONS}
    coordinator.run(coordinator.markers_written())
    assert producer.add((TOPIC, 1)) is Errors.NONE
