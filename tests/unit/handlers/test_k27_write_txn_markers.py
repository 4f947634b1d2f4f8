from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.unit.handlers.support import Node
from tests.unit.handlers.transaction_requests import (
    TOPIC,
    TransactionalProducer,
    fetch_committed,
)


@pytest.fixture
def leader(node: Node) -> Node:
    node.create_topic(TOPIC, 2)
    node.load_transactions()
    return node


def write(
    node: Node,
    producer: TransactionalProducer,
    *partitions: tuple[str, int],
    epoch: int | None = None,
    coordinator_epoch: int = 0,
    version: int = 2,
    transaction_version: int = 0,
    is_commit: bool = False,
) -> list[Errors]:
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch if epoch is None else epoch,
        transaction_result=is_commit,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=[number])
            for topic, number in partitions or ((TOPIC, 0),)
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )
    (result,) = node.ask(WriteTxnMarkersRequest(markers=[marker]), version).markers
    assert result.producer_id == producer.producer_id
    return [Errors.of(one.error_code) for topic in result.topics for one in topic.partitions]


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_ends_the_transaction(leader: Node, version: int) -> None:
    producer = TransactionalProducer(leader).started()
    producer.produce()
    assert fetch_committed(leader).last_stable_offset == 0
    assert write(leader, producer, version=version) == [Errors.NONE]
    found = fetch_committed(leader)
    assert (found.last_stable_offset, len(found.aborted_transactions)) == (2, 1)


def test_with_version_2_the_epoch_must_be_newer(leader: Node) -> None:
    producer = TransactionalProducer(leader).started()
    producer.produce()
    refused = [Errors.INVALID_PRODUCER_EPOCH]
    assert write(leader, producer, transaction_version=2) == refused
    assert write(leader, producer, epoch=producer.epoch + 1, transaction_version=2) == [Errors.NONE]
    # A repeated marker finds nothing open.
    assert write(leader, producer, epoch=producer.epoch + 1, transaction_version=2) == [Errors.NONE]
    assert write(leader, producer, transaction_version=2) == refused


def test_an_older_coordinator_is_refused(leader: Node) -> None:
    producer = TransactionalProducer(leader).started()
    producer.produce()
    assert write(leader, producer, coordinator_epoch=5) == [Errors.NONE]
    assert write(leader, producer, coordinator_epoch=4) == [Errors.TRANSACTION_COORDINATOR_FENCED]


def test_partitions_are_judged_one_by_one(leader: Node) -> None:
    producer = TransactionalProducer(leader).started()
    producer.produce()
    assert write(leader, producer, (TOPIC, 0), (TOPIC, 9), ("nowhere", 0)) == [
        Errors.NONE,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_offsets_are_ended_by_the_group_coordinator(leader: Node) -> None:
    producer = TransactionalProducer(leader).started()
    assert producer.commit_offset("g", TOPIC, 5) is Errors.NONE
    number = leader.services.groups.partition_for("g")
    name = ("__consumer_offsets", number)
    assert write(leader, producer, name, is_commit=True) == [Errors.NONE]
    shard = leader.services.groups.runtime.shard(number)
    assert shard is not None
    offsets = shard.machine.offsets.of_group("g")
    assert offsets is not None
    assert [one.offset for one in offsets.values()] == [5]


def test_a_group_coordinator_that_is_loading(node: Node) -> None:
    node.create_offsets_topic()
    producer = TransactionalProducer(node)
    producer.producer_id, producer.epoch = 1, 0
    assert write(node, producer, ("__consumer_offsets", 0)) == [Errors.NOT_LEADER_OR_FOLLOWER]


def test_no_markers(leader: Node) -> None:
    assert leader.ask(WriteTxnMarkersRequest(markers=[])).markers == []


@pytest.mark.parametrize("topic", [TOPIC, "__consumer_offsets"])
@pytest.mark.parametrize("change", [{"producer_id": -1}, {"epoch": -1}, {"epoch": -32_768}])
def test_a_producer_that_cannot_be(leader: Node, topic: str, change: dict[str, int]) -> None:
    """It closed the connection; Kafka answers, with an error for everything in the request."""
    producer = TransactionalProducer(leader).started()
    for name, value in change.items():
        setattr(producer, name, value)
    failed = [Errors.UNKNOWN_SERVER_ERROR] * 2
    assert write(leader, producer, (topic, 0), ("absent", 0)) == failed
    assert write(leader, producer, ("absent", 0)) == [Errors.UNKNOWN_TOPIC_OR_PARTITION]
