from __future__ import annotations

from kaa.wire.errors import Errors
from kaa.wire.messages.k61_describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from tests.unit.handlers.support import Node


def describe(node: Node, topic: str, *numbers: int) -> list[PartitionResponse]:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=topic, partition_indexes=list(numbers))]
    )
    (answered,) = node.ask(request).topics
    assert answered.name == topic
    found: list[PartitionResponse] = answered.partitions
    return found


def test_what_a_partition_remembers(node: Node) -> None:
    node.create_topic("t")
    node.append("t", 3, producer_id=9, producer_epoch=2, sequence=0, timestamp=5_000)
    (partition,) = describe(node, "t", 0)
    assert partition.error_message is None
    assert partition.active_producers == [
        ProducerState(
            producer_id=9,
            producer_epoch=2,
            last_sequence=2,
            last_timestamp=5_002,
            coordinator_epoch=-1,
            current_txn_start_offset=-1,
        )
    ]


def test_topics_and_partitions_that_are_not_here(node: Node) -> None:
    node.create_topic("t")
    (illegal,) = describe(node, "no such name", 0)
    assert (illegal.error_code, bool(illegal.error_message)) == (17, True)
    (absent,) = describe(node, "absent", 0)
    assert (absent.error_code, bool(absent.error_message)) == (3, True)
    # A missing partition of a topic that exists comes without words, as in Kafka.
    here, missing = describe(node, "t", 0, 5)
    assert here.error_code == Errors.NONE
    assert (missing.error_code, missing.error_message) == (3, None)


def test_only_the_leader_knows(node: Node) -> None:
    node.create_topic("t")
    topic_id = node.services.image.topics["t"].id
    node.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=7))
    (partition,) = describe(node, "t", 0)
    assert partition.error_code == Errors.NOT_LEADER_OR_FOLLOWER
