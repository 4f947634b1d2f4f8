from __future__ import annotations

import pytest

from kaa.serving.transactions.verification import (
    TransactionOperation,
    offset_commit_operation,
    produce_operation,
    produce_refusal,
)
from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.unit.handlers.support import Node
from tests.unit.handlers.transaction_requests import TOPIC, TransactionalProducer
from tests.unit.log.batches import batch


def test_versions() -> None:
    assert [produce_operation(version) for version in (10, 11, 12, 13)] == [
        TransactionOperation.VERIFY_OLD,
        TransactionOperation.VERIFY,
        TransactionOperation.ADD,
        TransactionOperation.ADD,
    ]
    assert [offset_commit_operation(version) for version in (3, 4, 5)] == [
        TransactionOperation.VERIFY_OLD,
        TransactionOperation.VERIFY,
        TransactionOperation.ADD,
    ]


@pytest.mark.parametrize(
    ("error", "operation", "told"),
    [
        (Errors.NETWORK_EXCEPTION, TransactionOperation.ADD, Errors.NOT_ENOUGH_REPLICAS),
        (Errors.NOT_COORDINATOR, TransactionOperation.VERIFY, Errors.NOT_ENOUGH_REPLICAS),
        (
            Errors.CONCURRENT_TRANSACTIONS,
            TransactionOperation.VERIFY,
            Errors.NOT_ENOUGH_REPLICAS,
        ),
        (
            Errors.CONCURRENT_TRANSACTIONS,
            TransactionOperation.ADD,
            Errors.CONCURRENT_TRANSACTIONS,
        ),
        (
            Errors.INVALID_TXN_STATE,
            TransactionOperation.VERIFY_OLD,
            Errors.INVALID_TXN_STATE,
        ),
        (
            Errors.INVALID_PRODUCER_EPOCH,
            TransactionOperation.ADD,
            Errors.INVALID_PRODUCER_EPOCH,
        ),
    ],
)
def test_what_producers_are_told(
    error: Errors, operation: TransactionOperation, told: Errors
) -> None:
    assert produce_refusal(error, operation)[0] is told


def produce(
    node: Node, producer: TransactionalProducer, version: int, name: str | None = None
) -> Errors:
    """A batch of a transaction, without asking the coordinator before."""
    records = batch(
        1,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        sequence=0,
        transactional=True,
    )
    request = ProduceRequest(
        transactional_id=name,
        acks=-1,
        timeout_ms=1_000,
        topic_data=[
            TopicProduceData(
                name=TOPIC,
                partition_data=[PartitionProduceData(index=0, records=bytes(records))],
            )
        ],
    )
    answer = node.ask(request, version)
    return Errors.of(answer.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (10, Errors.INVALID_TXN_STATE),
        (11, Errors.TRANSACTION_ABORTABLE),
        (12, Errors.NONE),
    ],
)
def test_a_partition_that_was_not_announced(node: Node, version: int, error: Errors) -> None:
    node.create_topic(TOPIC)
    node.load_transactions()
    producer = TransactionalProducer(node).started()
    assert produce(node, producer, version, producer.name) is error


def test_verification_can_be_turned_off() -> None:
    with Node("transaction.partition.verification.enable=false") as node:
        node.create_topic(TOPIC)
        node.load_transactions()
        producer = TransactionalProducer(node).started()
        assert produce(node, producer, 11, producer.name) is Errors.NONE


def test_transactional_records_need_a_transactional_id(node: Node) -> None:
    node.create_topic(TOPIC)
    node.load_transactions()
    producer = TransactionalProducer(node).started()
    assert produce(node, producer, 12) is Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_batch_that_comes_after_the_end_is_refused(node: Node) -> None:
    node.create_topic(TOPIC)
    node.load_transactions()
    producer = TransactionalProducer(node, version=0).started()
    assert producer.produce() is Errors.NONE
    producer.finish()
    late = producer.sequences[TOPIC, 0]
    records = batch(
        1,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        sequence=late,
        transactional=True,
    )
    request = ProduceRequest(
        transactional_id=producer.name,
        acks=-1,
        timeout_ms=1_000,
        topic_data=[
            TopicProduceData(
                name=TOPIC,
                partition_data=[PartitionProduceData(index=0, records=bytes(records))],
            )
        ],
    )
    (part,) = node.ask(request, 11).responses[0].partition_responses
    assert part.error_code == Errors.TRANSACTION_ABORTABLE


def test_without_a_coordinator(node: Node) -> None:
    node.create_topic(TOPIC)
    producer = TransactionalProducer(node)
    producer.producer_id, producer.epoch = 7, 0
    assert produce(node, producer, 12, "name") is Errors.NOT_ENOUGH_REPLICAS
