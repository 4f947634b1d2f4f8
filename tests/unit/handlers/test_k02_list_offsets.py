from __future__ import annotations

import pytest

from kaa.log.sim_files import Fault
from kaa.wire.errors import Errors
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kaa.wire.messages.metadata_cluster import RegisterBrokerRecord
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from tests.unit.handlers.support import NODE_ID, Node
from tests.unit.log.batches import batch


def look_up(
    node: Node,
    timestamp: int,
    *,
    topic: str = "t",
    epoch: int = -1,
    version: int = 11,
    times: int = 1,
) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked] * times)]
    )
    (answered,) = node.ask(request, version).topics
    (partition,) = answered.partitions
    found: ListOffsetsPartitionResponse = partition
    return found


@pytest.fixture
def filled(node: Node) -> Node:
    """Five records, with timestamps 100 to 104."""
    node.create_topic("t")
    node.partition("t").append(batch(5, timestamp=100), now_ms=0)
    return node


@pytest.mark.parametrize(
    ("timestamp", "offset"),
    [(-1, 5), (-2, 0), (-3, 4), (-4, 0), (-5, -1), (-6, -1), (0, 0), (102, 2), (105, -1)],
)
def test_positions(filled: Node, timestamp: int, offset: int) -> None:
    answer = look_up(filled, timestamp)
    assert answer.error_code == Errors.NONE
    assert answer.offset == offset


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
def test_position_that_the_version_does_not_know(
    filled: Node, timestamp: int, version: int
) -> None:
    answer = look_up(filled, timestamp, version=version)
    assert answer.error_code == Errors.UNSUPPORTED_VERSION


def test_found_record_comes_with_its_time_and_epoch(filled: Node) -> None:
    answer = look_up(filled, 101)
    assert (answer.timestamp, answer.offset, answer.leader_epoch) == (101, 1, 0)


def test_partition_asked_for_twice_is_refused(filled: Node) -> None:
    assert look_up(filled, -1, times=2).error_code == Errors.INVALID_REQUEST


def test_others_are_answered_beside_one_that_is_asked_for_again(filled: Node) -> None:
    numbers = [1, 0, 1, 2, 1]
    asked = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in numbers]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)]
    )
    (topic,) = filled.ask(request, 11).topics
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [
        (0, Errors.NONE),
        (2, Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (1, Errors.INVALID_REQUEST),
    ]


def test_epochs_and_unknown_topics(filled: Node) -> None:
    assert look_up(filled, -1, epoch=5).error_code == Errors.UNKNOWN_LEADER_EPOCH
    assert look_up(filled, -1, topic="no").error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_epochs_are_compared_before_it_is_asked_who_leads(filled: Node) -> None:
    topic_id = filled.services.image.topics["t"].id
    filled.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=7))
    assert look_up(filled, -1).error_code == Errors.NOT_LEADER_OR_FOLLOWER
    assert look_up(filled, -1, epoch=1).error_code == Errors.NOT_LEADER_OR_FOLLOWER
    assert look_up(filled, -1, epoch=0).error_code == Errors.FENCED_LEADER_EPOCH
    assert look_up(filled, -1, epoch=2).error_code == Errors.UNKNOWN_LEADER_EPOCH


def test_a_new_leader_does_not_tell_an_offset_that_may_go_back(filled: Node) -> None:
    topic_id = filled.services.image.topics["t"].id
    filled.replay(
        RegisterBrokerRecord(broker_id=2, broker_epoch=20, fenced=False),
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, replicas=[1, 2], isr=[1, 2]),
    )
    filled.append("t", 2, timestamp=200)
    filled.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=NODE_ID))
    assert look_up(filled, -1).error_code == Errors.OFFSET_NOT_AVAILABLE
    assert look_up(filled, -1, version=4).error_code == Errors.LEADER_NOT_AVAILABLE
    assert look_up(filled, 201).error_code == Errors.OFFSET_NOT_AVAILABLE
    assert look_up(filled, 102).offset == 2
    assert look_up(filled, -2).offset == 0
    filled.partition("t").replica_fetched(2, 7, 0, 20)
    assert look_up(filled, -1).offset == 7


@pytest.mark.parametrize("timestamp", [-3, 102])
@pytest.mark.parametrize("position", [0, 70])
def test_damaged_batch_costs_its_partition_alone(
    filled: Node, timestamp: int, position: int
) -> None:
    filled.create_topic("whole")
    filled.partition("whole").append(batch(5, timestamp=100), now_ms=0)
    path = filled.partition("t").online_log().segments.active.path(".log")
    filled.files.open(path).write([b"\xff" * 16], position)
    assert look_up(filled, timestamp).error_code == Errors.CORRUPT_MESSAGE
    assert look_up(filled, timestamp, topic="whole").error_code == Errors.NONE


@pytest.mark.parametrize("timestamp", [-3, 102])
def test_disk_that_cannot_be_read(filled: Node, timestamp: int) -> None:
    filled.files.faults = [Fault("read", ".log")]
    assert look_up(filled, timestamp).error_code == Errors.KAFKA_STORAGE_ERROR
    assert look_up(filled, timestamp).error_code == Errors.KAFKA_STORAGE_ERROR
