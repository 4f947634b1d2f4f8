from __future__ import annotations

from typing import Any

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from kaa.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.handlers.group_requests import committed
from tests.unit.handlers.support import Node
from tests.unit.handlers.transaction_requests import NAME, TOPIC, TransactionalProducer


@pytest.fixture
def coordinator(node: Node) -> Node:
    node.create_topic(TOPIC, 2)
    node.load_transactions()
    return node


def announce(node: Node, producer: TransactionalProducer) -> None:
    request = AddOffsetsToTxnRequest(
        transactional_id=NAME,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id="g",
    )
    assert node.ask(request).error_code == Errors.NONE


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_before_version_5_offsets_are_announced(coordinator: Node, version: int) -> None:
    producer = TransactionalProducer(coordinator, version=0).started()
    announce(coordinator, producer)
    assert producer.commit_offset("g", TOPIC, 5, version) is Errors.NONE
    producer.finish()


@pytest.mark.parametrize(
    ("version", "error"), [(3, Errors.INVALID_TXN_STATE), (4, Errors.TRANSACTION_ABORTABLE)]
)
def test_offsets_that_were_not_announced(coordinator: Node, version: int, error: Errors) -> None:
    producer = TransactionalProducer(coordinator, version=0).started()
    assert producer.commit_offset("g", TOPIC, 5, version) is error


def test_version_5_announces_by_itself(coordinator: Node) -> None:
    producer = TransactionalProducer(coordinator).started()
    assert producer.commit_offset("g", TOPIC, 5) is Errors.NONE
    # The second time nobody has to be asked.
    assert producer.commit_offset("g", TOPIC, 6) is Errors.NONE
    producer.finish()


def test_a_replaced_producer(coordinator: Node) -> None:
    producer = TransactionalProducer(coordinator).started()
    TransactionalProducer(coordinator).started()
    assert producer.commit_offset("g", TOPIC, 5) is Errors.INVALID_PRODUCER_EPOCH


def test_partitions_and_groups_that_do_not_exist(coordinator: Node) -> None:
    producer = TransactionalProducer(coordinator).started()
    assert producer.commit_offset("g", "nowhere", 5) is Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.commit_offset("", TOPIC, 5) is Errors.INVALID_GROUP_ID


def commit(node: Node, producer: TransactionalProducer, **fields: Any) -> list[Errors]:
    metadata = fields.pop("metadata", "")
    request = TxnOffsetCommitRequest(
        transactional_id=producer.name,
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=TOPIC,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=3,
                        committed_metadata=metadata,
                    )
                    for number in (0, 9)
                ],
            )
        ],
        **fields,
    )
    (topic,) = node.ask(request).topics
    assert [one.partition_index for one in topic.partitions] == [9, 0]
    return [Errors.of(one.error_code) for one in topic.partitions]


def test_members_are_checked_if_they_are_named(coordinator: Node) -> None:
    producer = TransactionalProducer(coordinator).started()
    missing = Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(coordinator, producer, generation_id=3, member_id="m") == [
        missing,
        Errors.ILLEGAL_GENERATION,
    ]
    committed(coordinator, (TOPIC, 0, 1))
    assert commit(coordinator, producer, generation_id=3, member_id="m") == [
        missing,
        Errors.UNKNOWN_MEMBER_ID,
    ]
    assert commit(coordinator, producer) == [missing, Errors.NONE]


def test_metadata_has_a_bound(coordinator: Node) -> None:
    producer = TransactionalProducer(coordinator).started()
    assert commit(coordinator, producer, metadata="x" * 5_000) == [
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.OFFSET_METADATA_TOO_LARGE,
    ]


@pytest.mark.parametrize(
    ("version", "error"),
    [(1, Errors.COORDINATOR_NOT_AVAILABLE), (2, Errors.COORDINATOR_LOAD_IN_PROGRESS)],
)
def test_old_clients_do_not_know_of_loading(node: Node, version: int, error: Errors) -> None:
    node.create_topic(TOPIC)
    node.create_offsets_topic()
    node.create_topic("__transaction_state", 1)
    producer = TransactionalProducer(node)
    producer.producer_id, producer.epoch = 1, 0
    assert producer.commit_offset("g", TOPIC, 5, version) is error
