from __future__ import annotations

import asyncio

from kaa.log.names import LOG_START_OFFSET_CHECKPOINT_FILE
from kaa.model.topics import TopicPartition
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from kaa.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kaa.wire.messages.metadata_cluster import FenceBrokerRecord, RegisterBrokerRecord
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from tests.unit.handlers.support import Node

Results = dict[tuple[str, int], tuple[int, int]]


def delete(
    node: Node,
    *wanted: tuple[str, int, int],
    version: int | None = None,
    timeout_ms: int = 1_000,
) -> Results:
    """Low watermark and error by topic and partition."""
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=name,
                partitions=[DeleteRecordsPartition(partition_index=number, offset=offset)],
            )
            for name, number, offset in wanted
        ],
        timeout_ms=timeout_ms,
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
    log = node.partition("t").online_log()
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
    node.partition("t").online_log().directory.fail(OSError("broken"))
    assert delete(node, ("t", 0, 0)) == {("t", 0): (-1, Errors.KAFKA_STORAGE_ERROR)}


def follow(node: Node) -> Partition:
    """Makes broker 2 a live replica of t-0, which has fetched everything."""
    topic_id = node.services.image.topics["t"].id
    node.replay(
        RegisterBrokerRecord(broker_id=2, broker_epoch=20, fenced=False),
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, replicas=[1, 2], isr=[1, 2]),
    )
    partition = node.partition("t")
    partition.replica_fetched(2, 10, 0, 20)
    return partition


def test_the_answer_waits_for_the_other_replicas(node: Node) -> None:
    node.create_topic("t")
    node.append("t", 10)
    partition = follow(node)
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=7)]
            )
        ],
        timeout_ms=60_000,
    )

    async def story() -> DeleteRecordsResponse:
        answer = node.services.loop.create_task(node.asked(request))
        await asyncio.sleep(0.01)
        assert partition.online_log().log_start_offset == 7
        assert not answer.done()
        partition.replica_fetched(2, 10, 7, 20)
        response: DeleteRecordsResponse = await asyncio.wait_for(answer, 60)
        return response

    ((result,),) = [topic.partitions for topic in node.run(story()).topics]
    assert (result.low_watermark, result.error_code) == (7, Errors.NONE)


def test_a_replica_that_does_not_follow_in_time(node: Node) -> None:
    node.create_topic("t")
    node.append("t", 10)
    partition = follow(node)
    assert delete(node, ("t", 0, 7), timeout_ms=20) == {("t", 0): (0, Errors.REQUEST_TIMED_OUT)}
    # A fenced one is not waited for.
    node.replay(FenceBrokerRecord(id=2, epoch=20))
    assert delete(node, ("t", 0, 7)) == {("t", 0): (7, Errors.NONE)}
    assert partition.low_watermark == 7


def test_records_are_deleted_after_a_swap_that_is_under_way(node: Node) -> None:
    """Which has written already where the log starts in the directory that it goes to."""
    node.create_topic("t")
    node.append("t", 10)
    logs, source = node.services.logs, node.partition("t").online_log()
    target = next(each for each in logs.directories if each is not source.directory)

    async def main() -> DeleteRecordsResponse:
        future = logs.futures.create(source, target, 0)

        def ended(_: object) -> None:
            node.partition("t").log = future

        swap = logs.futures.begin_swap(source, leader_epoch=9, now_ms=0, ended=ended)
        swap.advance()
        topic = DeleteRecordsTopic(
            name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=4)]
        )
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=1_000)
        async with asyncio.TaskGroup() as tasks:
            answer = tasks.create_task(node.asked(request))
            while not swap.is_settled:
                await asyncio.sleep(0)
                assert source.log_start_offset == 0
                assert not answer.done()
                swap.advance()
        response: DeleteRecordsResponse = answer.result()
        return response

    response = node.run(main())
    assert response.topics[0].partitions[0].low_watermark == 4
    stored = target.read_checkpoint(LOG_START_OFFSET_CHECKPOINT_FILE)
    assert stored[TopicPartition("t", 0)] == 4
