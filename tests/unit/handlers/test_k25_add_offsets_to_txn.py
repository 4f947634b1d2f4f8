from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from kaa.wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from tests.unit.handlers.support import Node
from tests.unit.handlers.transaction_requests import NAME, TransactionalProducer


def request(producer: TransactionalProducer, group: str = "g") -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=producer.name,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=group,
    )


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_the_partition_of_the_group_becomes_part(node: Node, version: int) -> None:
    node.load_transactions()
    producer = TransactionalProducer(node).started()
    assert node.ask(request(producer), version).error_code == Errors.NONE
    answer = node.ask(DescribeTransactionsRequest(transactional_ids=[NAME]))
    (topic,) = answer.transaction_states[0].topics
    assert topic.topic == "__consumer_offsets"
    assert topic.partitions == [node.services.groups.partition_for("g")]


@pytest.mark.parametrize(
    ("version", "error"), [(1, Errors.INVALID_PRODUCER_EPOCH), (2, Errors.PRODUCER_FENCED)]
)
def test_a_replaced_producer(node: Node, version: int, error: Errors) -> None:
    node.load_transactions()
    producer = TransactionalProducer(node).started()
    TransactionalProducer(node).started()
    assert node.ask(request(producer), version).error_code == error


def test_refusals(node: Node) -> None:
    node.load_transactions()
    nobody = TransactionalProducer(node, "nobody")
    assert node.ask(request(nobody)).error_code == Errors.INVALID_PRODUCER_ID_MAPPING
    unnamed = TransactionalProducer(node, "")
    assert node.ask(request(unnamed)).error_code == Errors.INVALID_REQUEST
