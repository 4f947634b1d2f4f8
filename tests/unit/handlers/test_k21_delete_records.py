from __future__ import annotations

from kaa.log.names import LOG_START_OFFSET_CHECKPOINT_FILE, TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from tests.unit.handlers.support import Node

Results = dict[tuple[str, int], tuple[int, int]]


def delete(node: Node, *wanted: tuple[str, int, int], version: int | None = None) -> Results:
    """Low watermark and error by topic and partition."""
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=name,
                partitions=[DeleteRecordsPartition(partition_index=number, offset=offset)],
            )
            for name, number, offset in wanted
        ],
        timeout_ms=1_000,
    )
    response = node.ask(request, version)
    names = [topic.name for topic in response.topics]
    assert len(set(names)) == len(names)
    return {
        (topic.name, partition.partition_index): (partition.low_watermark, partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    }


def test_the_log_starts_later_also_on_disk(node: Node) -> None:
    node.create_topic("t", 2)
    node.append("t", 10)
    node.append("t", 4, number=1)
    assert delete(node, ("t", 0, 3), ("t", 1, -1)) == {("t", 0): (3, 0), ("t", 1): (4, 0)}
    log = node.partition("t").leader_log()
    assert log.log_start_offset == 3
    stored = log.directory.read_checkpoint(LOG_START_OFFSET_CHECKPOINT_FILE)
    assert stored[TopicPartition("t", 0)] == 3


def test_offsets_that_cannot_be(node: Node) -> None:
    node.create_topic("t", 2)
    node.append("t", 10)
    out_of_range = (-1, Errors.OFFSET_OUT_OF_RANGE)
    assert delete(node, ("t", 0, 11), ("t", 1, -2)) == {
        ("t", 0): out_of_range,
        ("t", 1): out_of_range,
    }


def test_an_earlier_offset_changes_nothing(node: Node) -> None:
    node.create_topic("t")
    node.append("t", 10)
    delete(node, ("t", 0, 5))
    assert delete(node, ("t", 0, 2), version=0) == {("t", 0): (5, 0)}


def test_the_last_offset_of_a_partition_counts(node: Node) -> None:
    node.create_topic("t")
    node.append("t", 10)
    assert delete(node, ("t", 0, 9), ("t", 0, 2)) == {("t", 0): (2, 0)}


def test_topics_that_are_not_for_it(node: Node) -> None:
    node.create_topic("compacted", cleanup_policy="compact")
    node.create_topic("both", cleanup_policy="compact,delete")
    node.create_topic("__consumer_offsets")
    assert delete(
        node, ("compacted", 0, 0), ("both", 0, 0), ("__consumer_offsets", 0, 0), ("absent", 0, 0)
    ) == {
        ("compacted", 0): (-1, Errors.POLICY_VIOLATION),
        ("both", 0): (0, 0),
        ("__consumer_offsets", 0): (-1, Errors.INVALID_TOPIC_EXCEPTION),
        ("absent", 0): (-1, Errors.UNKNOWN_TOPIC_OR_PARTITION),
    }


def test_only_the_leader_deletes(node: Node) -> None:
    node.create_topic("t")
    topic_id = node.services.image.topics["t"].id
    node.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=7))
    assert delete(node, ("t", 0, 0)) == {("t", 0): (-1, Errors.NOT_LEADER_OR_FOLLOWER)}


def test_a_broken_directory(node: Node) -> None:
    node.create_topic("t")
    node.partition("t").leader_log().directory.fail(OSError("broken"))
    assert delete(node, ("t", 0, 0)) == {("t", 0): (-1, Errors.KAFKA_STORAGE_ERROR)}
