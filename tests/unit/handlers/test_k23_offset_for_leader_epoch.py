from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from tests.unit.handlers.support import NODE_ID, Node


def ask(
    node: Node, epoch: int, *, current: int = -1, topic: str = "t", version: int | None = None
) -> tuple[int, int, int]:
    """Error, epoch and end offset."""
    request = OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderPartition(
                        partition=0, current_leader_epoch=current, leader_epoch=epoch
                    )
                ],
            )
        ]
    )
    (answered,) = node.ask(request, version).topics
    assert answered.topic == topic
    (partition,) = answered.partitions
    return partition.error_code, partition.leader_epoch, partition.end_offset


def lead_anew(node: Node, leader: int = NODE_ID) -> None:
    topic_id = node.services.image.topics["t"].id
    node.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=leader))


@pytest.mark.parametrize("version", [2, 3, 4])
def test_ends_of_epochs(node: Node, version: int) -> None:
    node.create_topic("t")
    node.append("t", 5)
    lead_anew(node)
    node.append("t", 2)
    assert ask(node, 0, version=version) == (0, 0, 5)
    assert ask(node, 1, version=version) == (0, 1, 7)
    assert ask(node, 9, version=version) == (0, -1, -1)
    assert ask(node, -1, version=version) == (0, -1, -1)


def test_the_epoch_of_the_client(node: Node) -> None:
    node.create_topic("t")
    lead_anew(node)
    assert ask(node, 0, current=1)[0] == Errors.NONE
    assert ask(node, 0, current=0) == (Errors.FENCED_LEADER_EPOCH, -1, -1)
    assert ask(node, 0, current=2) == (Errors.UNKNOWN_LEADER_EPOCH, -1, -1)


def test_partitions_that_are_not_led_here(node: Node) -> None:
    assert ask(node, 0, topic="absent") == (Errors.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    node.create_topic("t")
    lead_anew(node, leader=7)
    assert ask(node, 0) == (Errors.NOT_LEADER_OR_FOLLOWER, -1, -1)
    # The epoch is compared first.
    assert ask(node, 0, current=0) == (Errors.FENCED_LEADER_EPOCH, -1, -1)


def test_a_broken_directory(node: Node) -> None:
    node.create_topic("t")
    node.partition("t").online_log().directory.fail(OSError("broken"))
    assert ask(node, 0) == (Errors.KAFKA_STORAGE_ERROR, -1, -1)
