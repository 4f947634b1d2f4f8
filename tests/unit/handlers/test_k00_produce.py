from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import pytest

from kaa.handlers.context import RequestContext, response_of
from kaa.handlers.k00_produce import handle
from kaa.limits import PRODUCE_BATCHES_AT_ONCE_MAX, PRODUCE_ON_LOOP_WRITTEN_BYTES_MAX
from kaa.log.segment import Segment
from kaa.log.sim_files import Fault
from kaa.net.pending import Pending
from kaa.records.batch import CompressionType
from kaa.wire.errors import Errors
from kaa.wire.frames import RequestFrame
from kaa.wire.messages.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from kaa.wire.primitives import UUID_ZERO
from tests.unit.handlers.support import NOW_MS, Node
from tests.unit.log.batches import batch
from tests.unit.records.samples import build, with_crc

if TYPE_CHECKING:
    from kaa.net.connection import Connection


def request(
    node: Node, records: bytearray | None, *, acks: int = -1, topic: str = "t", index: int = 0
) -> ProduceRequest:
    image = node.services.image.topics.get(topic)
    topic_id = UUID_ZERO if image is None else image.id
    data = PartitionProduceData(index=index, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=100,
        topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])],
    )


def produce(
    node: Node,
    records: bytearray | None,
    *,
    acks: int = -1,
    topic: str = "t",
    index: int = 0,
    version: int = 12,
) -> PartitionProduceResponse:
    response = node.ask(request(node, records, acks=acks, topic=topic, index=index), version)
    found: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return found


def fresh(count: int = 1) -> bytearray:
    return batch(count, timestamp=NOW_MS)


@pytest.mark.parametrize("version", [3, 7, 8, 9, 12])
def test_batches_get_their_offsets(node: Node, version: int) -> None:
    node.create_topic("t")
    assert produce(node, fresh(3), version=version).base_offset == 0
    assert produce(node, fresh(2), version=version).base_offset == 3
    found = node.partition("t")
    assert found.online_log().high_watermark == 5


def test_topics_by_id(node: Node) -> None:
    node.create_topic("t")
    assert produce(node, fresh(), version=13).error_code == Errors.NONE
    assert produce(node, fresh(), topic="none", version=13).error_code == Errors.UNKNOWN_TOPIC_ID


def test_one_bad_partition_does_not_touch_the_others(node: Node) -> None:
    node.create_topic("t", partitions=2)
    damaged = fresh()
    damaged[-1] ^= 1
    topic = TopicProduceData(
        name="t",
        partition_data=[
            PartitionProduceData(index=0, records=damaged),
            PartitionProduceData(index=1, records=fresh()),
            PartitionProduceData(index=7, records=fresh()),
        ],
    )
    answer = node.ask(ProduceRequest(acks=1, topic_data=[topic]), 12)
    errors = [part.error_code for part in answer.responses[0].partition_responses]
    assert errors == [
        Errors.CORRUPT_MESSAGE,
        Errors.NONE,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_impossible_acks_are_refused(node: Node) -> None:
    node.create_topic("t")
    assert produce(node, fresh(), acks=2).error_code == Errors.INVALID_REQUIRED_ACKS


def test_internal_topics_are_not_for_clients(node: Node) -> None:
    node.create_topic("__consumer_offsets")
    answer = produce(node, fresh(), topic="__consumer_offsets")
    assert answer.error_code == Errors.INVALID_TOPIC_EXCEPTION


def test_repeated_sequence_gets_its_first_offset(node: Node) -> None:
    node.create_topic("t")

    def again() -> bytearray:
        return batch(2, producer_id=7, producer_epoch=0, sequence=0, timestamp=NOW_MS)

    assert produce(node, again()).base_offset == 0
    assert produce(node, again()).base_offset == 0
    assert node.partition("t").online_log().log_end_offset == 2
    gap = batch(1, producer_id=7, producer_epoch=0, sequence=9, timestamp=NOW_MS)
    assert produce(node, gap).error_code == Errors.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_lost_leadership_is_told_with_the_leader(node: Node) -> None:
    node.create_topic("t")
    topic_id = node.services.image.topics["t"].id
    node.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=2))
    answer = produce(node, fresh())
    assert answer.error_code == Errors.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader is not None
    assert answer.current_leader.leader_id == 2


def test_too_few_replicas_refuse_acks_of_all_alone(node: Node) -> None:
    node.create_topic("t", min_insync_replicas="1")
    topic_id = node.services.image.topics["t"].id
    node.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, replicas=[1, 2], isr=[]))
    assert produce(node, fresh()).error_code == Errors.NOT_ENOUGH_REPLICAS
    assert produce(node, fresh(), acks=1).error_code == Errors.NONE


def test_answer_waits_for_replicas_until_its_time_is_up(node: Node) -> None:
    node.create_topic("t")
    topic_id = node.services.image.topics["t"].id
    node.replay(
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, replicas=[1, 2], isr=[1, 2])
    )
    assert produce(node, fresh()).error_code == Errors.REQUEST_TIMED_OUT
    assert node.partition("t").online_log().log_end_offset == 1


def test_who_waits_for_replicas_does_not_keep_the_frame(node: Node) -> None:
    node.create_topic("t")
    topic_id = node.services.image.topics["t"].id
    node.replay(
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, replicas=[1, 2], isr=[1, 2])
    )
    produce(node, None)
    context = RequestContext(
        RequestFrame(0, 12, 7, "client", 0), cast("Connection", node.connection)
    )
    frame = bytearray(request(node, fresh()).encode(12))

    async def scenario() -> None:
        answer: Any = handle(node.services, ProduceRequest.decode(frame, 12), context)
        assert isinstance(answer, Pending)
        # Nothing can be added to what has views.
        frame.append(0)
        response: Any = await response_of(answer)
        assert response.responses[0].partition_responses[0].error_code == Errors.REQUEST_TIMED_OUT

    node.run(scenario())


# --- very many batches


def many(node: Node, count: int, *, acks: int = -1) -> ProduceRequest:
    """For the partitions 0, 1, 2, 0, 1, 2 and so on of two topics; one of the last is damaged."""
    damaged = fresh()
    damaged[-1] ^= 1
    data = [PartitionProduceData(index=n % 3, records=fresh()) for n in range(count)]
    data[-2] = PartitionProduceData(index=1, records=damaged)
    node.create_topic("t", partitions=3)
    node.create_topic("u", partitions=3)
    topics = [TopicProduceData(name=name, partition_data=data) for name in ("t", "u")]
    empty = TopicProduceData(name="none", partition_data=[])
    return ProduceRequest(acks=acks, timeout_ms=100, topic_data=[topics[0], empty, topics[1]])


@pytest.mark.parametrize("acks", [-1, 1])
def test_very_many_batches_are_appended_in_turns_and_in_order(node: Node, acks: int) -> None:
    count = 3 * PRODUCE_BATCHES_AT_ONCE_MAX
    asked = many(node, count, acks=acks)
    log = node.partition("t").online_log()
    ends = [log.log_end_offset]
    others = node.services.loop.call_soon

    def look() -> None:
        ends.append(log.log_end_offset)
        if ends[-1] < count // 3:
            others(look)

    others(look)
    answer = node.ask(asked, 12)
    assert [topic.name for topic in answer.responses] == ["t", "u"]
    for topic in answer.responses:
        parts = topic.partition_responses
        assert [part.index for part in parts] == [number % 3 for number in range(count)]
        assert parts[-2].error_code == Errors.CORRUPT_MESSAGE
        expected = [number // 3 for number in range(count)]
        expected[-2] = -1
        assert [part.base_offset for part in parts] == expected
    # Others had turns meanwhile.
    assert len(set(ends)) > 3


def test_very_many_batches_with_impossible_acks(node: Node) -> None:
    answer = node.ask(many(node, PRODUCE_BATCHES_AT_ONCE_MAX, acks=2), 12)
    errors = {part.error_code for topic in answer.responses for part in topic.partition_responses}
    assert errors == {Errors.INVALID_REQUIRED_ACKS}
    assert node.partition("t").online_log().log_end_offset == 0


# --- batches that expand to megabytes


def bomb() -> bytearray:
    return build([(NOW_MS, b"k", bytes(1 << 20), ())] * 5, CompressionType.ZSTD)


def test_large_batches_are_judged_beside_the_small_ones(node: Node) -> None:
    node.create_topic("t", partitions=3)
    damaged = bomb()
    damaged[-1] ^= 1
    topic = TopicProduceData(
        name="t",
        partition_data=[
            PartitionProduceData(index=0, records=bomb()),
            PartitionProduceData(index=1, records=fresh(2)),
            PartitionProduceData(index=2, records=with_crc(damaged)),
        ],
    )
    answer = node.ask(ProduceRequest(acks=-1, timeout_ms=100, topic_data=[topic]), 9)
    parts = answer.responses[0].partition_responses
    assert [(part.index, part.base_offset) for part in parts] == [(0, 0), (1, 0), (2, -1)]
    assert [part.error_code for part in parts][:2] == [Errors.NONE, Errors.NONE]
    assert parts[2].error_code in {Errors.UNKNOWN_SERVER_ERROR, Errors.INVALID_RECORD}
    assert node.partition("t", 0).online_log().high_watermark == 5
    assert node.partition("t", 2).online_log().log_end_offset == 0


def test_leadership_lost_while_a_large_batch_was_judged(node: Node) -> None:
    node.create_topic("t")

    async def main() -> None:
        asking = asyncio.ensure_future(node.asked(request(node, bomb()), 9))  # noqa: TID251
        await asyncio.sleep(0)
        topic_id = node.services.image.topics["t"].id
        node.replay(PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2))
        (part,) = (await asking).responses[0].partition_responses
        assert part.error_code == Errors.NOT_LEADER_OR_FOLLOWER

    node.run(main())
    log = node.partition("t").log
    assert log is not None
    assert log.log_end_offset == 0


# --- writes that are too long for the loop


@pytest.fixture
def threaded(node: Node) -> Iterator[Node]:
    """A node whose directories have writers."""
    with ThreadPoolExecutor(1, thread_name_prefix="writer") as writer:
        for directory in node.services.logs.directories:
            directory.writer = writer
        yield node


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that write to segments."""
    found: list[str] = []
    write = Segment.write

    def noted(segment: Segment, buffers: Any) -> None:
        found.append(threading.current_thread().name.partition("_")[0])
        write(segment, buffers)

    monkeypatch.setattr(Segment, "write", noted)
    return found


def large() -> bytearray:
    return batch(1, timestamp=NOW_MS, value_bytes=PRODUCE_ON_LOOP_WRITTEN_BYTES_MAX)


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_large_batch_is_written_by_a_thread(
    threaded: Node, acks: int, threads: list[str]
) -> None:
    threaded.create_topic("t")
    threads.clear()
    assert produce(threaded, fresh(2), acks=acks).base_offset == 0
    assert produce(threaded, large(), acks=acks).base_offset == 2
    assert produce(threaded, fresh(2), acks=acks).base_offset == 3
    assert threads == ["MainThread", "writer", "MainThread"]
    assert threaded.partition("t").online_log().high_watermark == 5


def test_many_small_batches_are_written_in_turns_of_the_loop(
    threaded: Node, threads: list[str]
) -> None:
    """Three times what is written at once, and one batch in the middle that is too long."""
    threaded.create_topic("t", partitions=13)
    threads.clear()
    asked = request(threaded, None)
    value_bytes = PRODUCE_ON_LOOP_WRITTEN_BYTES_MAX // 4
    asked.topic_data[0].partition_data = [
        PartitionProduceData(
            index=index,
            records=large()
            if index == 6
            else batch(2, timestamp=NOW_MS, value_bytes=value_bytes // 2),
        )
        for index in range(13)
    ]
    answers = threaded.ask(asked, 12).responses[0].partition_responses
    assert [(one.index, one.error_code, one.base_offset) for one in answers] == [
        (index, 0, 0) for index in range(13)
    ]
    assert sorted(threads) == ["MainThread"] * 12 + ["writer"]
    ends = [threaded.partition("t", index).online_log().log_end_offset for index in range(13)]
    assert ends == [1 if index == 6 else 2 for index in range(13)]


def test_a_batch_that_is_flushed_is_written_by_a_thread(threaded: Node, threads: list[str]) -> None:
    threaded.create_topic("t", flush_messages="2")
    threads.clear()
    for _ in range(3):
        produce(threaded, fresh())
    assert threads == ["MainThread", "writer", "MainThread"]
    assert threaded.partition("t").online_log().recovery_point == 2


def test_with_group_commit_all_writes_leave_the_loop(threaded: Node, threads: list[str]) -> None:
    threaded.create_topic("t")
    threads.clear()
    partition = threaded.partition("t")
    told: list[int] = []
    partition.request_flush = lambda found: told.append(found.online_log().log_end_offset)
    assert produce(threaded, fresh(2), acks=1).base_offset == 0
    assert threads == ["writer"]
    assert told == [2]
    assert partition.online_log().high_watermark == 0


def test_a_topic_that_is_deleted_while_it_is_written_is_told_at_once(threaded: Node) -> None:
    threaded.create_topic("t")
    (directory,) = {log.directory for log in threaded.services.logs.logs.values()}
    assert directory.writer is not None
    gate = threading.Event()
    directory.writer.submit(gate.wait)

    async def main() -> ProduceResponse:
        asked = request(threaded, large())
        asked.timeout_ms = 30_000
        produced = asyncio.ensure_future(threaded.asked(asked, 12))  # noqa: TID251
        await asyncio.sleep(0)
        deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1_000)
        deleted = asyncio.ensure_future(threaded.asked(deletion, 6))  # noqa: TID251
        threaded.services.loop.call_later(0.1, gate.set)
        threading.Timer(0.2, gate.set).start()
        async with asyncio.timeout(60):
            await deleted
            answer: ProduceResponse = await produced
        return answer

    (topic,) = threaded.run(main()).responses
    assert topic.partition_responses[0].error_code in {
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_a_broken_disk_is_told_by_a_thread_too(threaded: Node) -> None:
    threaded.create_topic("t")
    threaded.files.faults.append(Fault("write", ".log"))
    assert produce(threaded, large()).error_code == Errors.KAFKA_STORAGE_ERROR
    assert produce(threaded, fresh()).error_code == Errors.KAFKA_STORAGE_ERROR
