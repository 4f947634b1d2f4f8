from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kaa.limits import FETCH_PARTITIONS_PER_TURN_MAX
from kaa.log.append import AppendSource, append_as_follower
from kaa.log.sim_files import Fault, Inspection
from kaa.records.batch import iter_batches
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kaa.wire.messages.metadata_cluster import BrokerEndpoint, RegisterBrokerRecord
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from kaa.wire.primitives import UUID_ZERO
from tests.unit.handlers.support import NODE_ID, NOW_MS, Node
from tests.unit.log.batches import batch

VERSIONS = (4, 5, 7, 9, 11, 12, 13, 15, 16, 18)


def topic_request(node: Node, topic: str, partitions: list[FetchPartition]) -> FetchTopic:
    image = node.services.image.topics.get(topic)
    topic_id = UUID_ZERO if image is None else image.id
    return FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)


def request(node: Node, offset: int = 0, *, topic: str = "t", **fields: Any) -> FetchRequest:
    """A fetch of one partition; fields are of the request or of the partition."""
    of_partition: dict[str, Any] = {
        name: fields.pop(name)
        for name in ("partition", "current_leader_epoch", "last_fetched_epoch")
        if name in fields
    }
    of_partition |= {"partition_max_bytes": fields.pop("partition_max_bytes", 1 << 20)}
    partition = FetchPartition(fetch_offset=offset, **of_partition)
    settings = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1} | fields
    return FetchRequest(topics=[topic_request(node, topic, [partition])], **settings)


def fetch(node: Node, offset: int = 0, *, version: int = 12, **fields: Any) -> PartitionData:
    response: FetchResponse = node.ask(request(node, offset, **fields), version)
    assert response.error_code == Errors.NONE
    ((found,),) = [topic.partitions for topic in response.responses]
    return found


def offsets(data: PartitionData) -> list[int]:
    """The base offsets of the batches in an answer."""
    return [found.base_offset for found in iter_batches(bytes(data.records or b""))]


@pytest.fixture
def filled(node: Node) -> Node:
    """A topic with three batches of two records in partition 0, and a partition without any."""
    node.create_topic("t", partitions=2)
    for _ in range(3):
        node.append("t", 2)
    return node


# --- what is read


@pytest.mark.parametrize("version", VERSIONS)
def test_records_from_an_offset_on(filled: Node, version: int) -> None:
    found = fetch(filled, 2, version=version)
    assert offsets(found) == [2, 4]
    assert found.high_watermark == found.last_stable_offset == 6
    assert found.error_code == Errors.NONE


def test_an_offset_inside_a_batch_gives_the_whole_batch(filled: Node) -> None:
    assert offsets(fetch(filled, 3)) == [2, 4]


@pytest.mark.parametrize("operation", ["open", "read"])
def test_a_disk_that_cannot_be_read_costs_its_partitions_alone(
    filled: Node, operation: Inspection
) -> None:
    log = filled.partition("t").online_log()
    log.forget_positions()
    log.segments.active.rest()
    filled.files.faults = [Fault(operation, ".log")]
    assert fetch(filled, 2).error_code == Errors.KAFKA_STORAGE_ERROR
    assert not log.directory.is_online
    assert fetch(filled, 2).error_code == Errors.KAFKA_STORAGE_ERROR


def test_a_damaged_batch_costs_its_partition_alone_and_is_told_once(filled: Node) -> None:
    filled.append("t", 2, number=1)
    log = filled.partition("t").online_log()
    reports: list[str] = []
    log.directory.report = reports.append
    log.forget_positions()
    path = log.segments.active.path(".log")
    filled.files.open(path).write([b"z" * 16], 0)
    partitions = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
        for number in (0, 1)
    ]
    asked = FetchRequest(
        topics=[topic_request(filled, "t", partitions)],
        max_wait_ms=0,
        min_bytes=1,
        session_epoch=-1,
    )
    for _ in range(3):
        response: FetchResponse = filled.ask(asked, 12)
        ((damaged, whole),) = [topic.partitions for topic in response.responses]
        assert damaged.error_code == Errors.CORRUPT_MESSAGE
        assert offsets(whole) == [0]
    (report,) = reports
    assert f"t-0 is damaged: {path}: no batch at position 0" in report


def test_what_lies_before_a_damaged_batch_is_read(filled: Node) -> None:
    log = filled.partition("t").online_log()
    log.forget_positions()
    size = log.segments.active.size // 3
    path = log.segments.active.path(".log")
    filled.files.open(path).write([b"z" * 16], 2 * size)
    assert offsets(fetch(filled, 0, partition_max_bytes=2 * size + 1)) == [0, 2]
    assert fetch(filled, 4).error_code == Errors.CORRUPT_MESSAGE


def test_the_end_gives_nothing_and_beyond_it_is_an_error(filled: Node) -> None:
    assert offsets(fetch(filled, 6)) == []
    for offset in (7, -1):
        assert fetch(filled, offset).error_code == Errors.OFFSET_OUT_OF_RANGE


def test_sizes_are_limits_but_for_the_first_batch(filled: Node) -> None:
    size = len(bytes(fetch(filled).records or b"")) // 3
    assert offsets(fetch(filled, partition_max_bytes=1)) == [0]
    assert offsets(fetch(filled, partition_max_bytes=2 * size)) == [0, 2]
    assert offsets(fetch(filled, max_bytes=1)) == [0]
    assert offsets(fetch(filled, max_bytes=2 * size)) == [0, 2]


def test_the_size_of_an_answer_is_shared_by_its_partitions(filled: Node) -> None:
    filled.append("t", 2, number=1)
    partitions = [
        FetchPartition(partition=number, partition_max_bytes=1 << 20) for number in (0, 1)
    ]
    asked = FetchRequest(
        max_bytes=1, session_epoch=-1, topics=[topic_request(filled, "t", partitions)]
    )
    ((first, second),) = [topic.partitions for topic in filled.ask(asked, 12).responses]
    assert (offsets(first), offsets(second)) == ([0], [])


def test_readers_of_committed_data_stop_at_an_open_transaction(filled: Node) -> None:
    partition = filled.partition("t")
    guard = partition.online_log().producer_state.start_verification(
        9, 0, 0, supports_epoch_bump=False, now_ms=NOW_MS
    )
    records = batch(1, producer_id=9, producer_epoch=0, sequence=0, transactional=True)
    partition.append(records, now_ms=NOW_MS, source=AppendSource(guard=guard))
    assert offsets(fetch(filled, 4)) == [4, 6]
    found = fetch(filled, 4, isolation_level=1)
    assert (offsets(found), found.last_stable_offset, found.high_watermark) == ([4], 6, 7)
    assert found.aborted_transactions == []


def follow(node: Node) -> None:
    """Makes broker 2 a replica of t-0, in sync."""
    topic_id = node.services.image.topics["t"].id
    node.replay(
        RegisterBrokerRecord(broker_id=2, broker_epoch=20, fenced=False),
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, replicas=[1, 2], isr=[1, 2]),
    )


def as_replica(replica_id: int = 2, epoch: int = 20) -> dict[str, Any]:
    return {"replica_state": ReplicaState(replica_id=replica_id, replica_epoch=epoch)}


def test_followers_read_beyond_the_high_watermark(filled: Node) -> None:
    follow(filled)
    filled.append("t", 2)
    assert offsets(fetch(filled, 4)) == [4]
    assert offsets(fetch(filled, 6, version=15, **as_replica())) == [6]
    # The follower, asking for what comes next, has all before it.
    assert offsets(fetch(filled, 8, version=15, **as_replica())) == []
    assert offsets(fetch(filled, 4)) == [4, 6]


def test_a_fetch_out_of_range_is_no_progress_of_a_follower(filled: Node) -> None:
    follow(filled)
    filled.append("t", 2)
    found = fetch(filled, 10**9, version=15, **as_replica())
    assert found.error_code == Errors.OFFSET_OUT_OF_RANGE
    assert filled.partition("t").online_log().high_watermark == 6


def test_a_follower_whose_log_diverges_has_made_no_progress(filled: Node) -> None:
    follow(filled)
    topic_id = filled.services.image.topics["t"].id
    filled.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=NODE_ID))
    filled.append("t", 2)
    found = fetch(filled, 8, version=15, last_fetched_epoch=0, **as_replica())
    assert found.diverging_epoch is not None
    assert filled.partition("t").online_log().high_watermark == 6


def test_a_broker_that_is_no_replica_sees_and_changes_nothing(filled: Node) -> None:
    follow(filled)
    filled.append("t", 2)
    for offset in (6, 8):
        found = fetch(filled, offset, version=15, **as_replica(3))
        assert (found.error_code, offsets(found)) == (Errors.NOT_LEADER_OR_FOLLOWER, [])
        found = fetch(filled, offset, version=15, current_leader_epoch=0, **as_replica(3))
        assert (found.error_code, offsets(found)) == (Errors.UNKNOWN_LEADER_EPOCH, [])
    assert filled.partition("t").online_log().high_watermark == 6


def test_a_fetch_of_a_former_life_is_refused(filled: Node) -> None:
    follow(filled)
    filled.append("t", 2)
    found = fetch(filled, 8, version=15, **as_replica(2, 19))
    assert found.error_code == Errors.NOT_LEADER_OR_FOLLOWER
    assert filled.partition("t").online_log().high_watermark == 6


def test_an_append_wakes_a_follower_at_once(filled: Node) -> None:
    follow(filled)
    asked = request(filled, 6, max_wait_ms=60_000, max_bytes=1 << 20, **as_replica())

    async def story() -> Any:
        answer = filled.services.loop.create_task(filled.asked(asked, 15))
        await asyncio.sleep(0.01)
        assert not answer.done()
        filled.append("t", 2)
        return await asyncio.wait_for(answer, 60)

    ((found,),) = [topic.partitions for topic in filled.run(story()).responses]
    assert offsets(found) == [6]
    # Nothing was acknowledged by it.
    assert filled.partition("t").online_log().high_watermark == 6


def test_a_follower_is_told_of_what_is_new_alone(filled: Node) -> None:
    """In a session, and only partitions with something new are read."""
    follow(filled)
    topic_id = filled.services.image.topics["t"].id
    filled.replay(
        PartitionChangeRecord(topic_id=topic_id, partition_id=1, replicas=[1, 2], isr=[1, 2])
    )
    wanted = [
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20)
        for number, offset in ((0, 6), (1, 0))
    ]
    topic = topic_request(filled, "t", wanted)
    first = FetchRequest(session_epoch=0, topics=[topic], **as_replica())
    session = filled.ask(first, 16).session_id

    def again(epoch: int, *named: FetchPartition) -> dict[int, tuple[list[int], int]]:
        topics = [topic_request(filled, "t", list(named))] if named else []
        request = FetchRequest(
            session_id=session, session_epoch=epoch, topics=topics, **as_replica()
        )
        response = filled.ask(request, 16)
        return {
            found.partition_index: (offsets(found), found.high_watermark)
            for answered in response.responses
            for found in answered.partitions
        }

    assert again(1) == {}
    filled.append("t", 2, 1)
    # Until the follower asks for what comes next, it is sent the same.
    for epoch in (2, 3):
        assert again(epoch) == {1: ([0], 0)}
    moved = FetchPartition(partition=1, fetch_offset=2, partition_max_bytes=1 << 20)
    assert again(4, moved) == {1: ([], 2)}
    assert again(5) == {}
    filled.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=2))
    assert again(6) == {0: ([], -1)}


def test_a_follower_that_waits_for_records_hears_of_the_high_watermark(filled: Node) -> None:
    """Which moved before it asked: what its fetch reads first is not what it answers."""
    follow(filled)
    log = filled.partition("t").online_log()
    at_end = [FetchPartition(partition=0, fetch_offset=6, partition_max_bytes=1 << 20)]
    topics = [topic_request(filled, "t", at_end)]
    session = filled.ask(FetchRequest(session_epoch=0, topics=topics, **as_replica()), 16)
    log.update_high_watermark(4)

    def told(epoch: int) -> list[int]:
        request = FetchRequest(
            session_id=session.session_id,
            session_epoch=epoch,
            min_bytes=1,
            max_wait_ms=20,
            **as_replica(),
        )
        response = filled.ask(request, 16)
        return [one.high_watermark for topic in response.responses for one in topic.partitions]

    assert told(1) == [log.high_watermark]
    assert told(2) == []


# --- what is refused


@pytest.mark.parametrize(
    ("version", "error"),
    [(12, Errors.UNKNOWN_TOPIC_OR_PARTITION), (13, Errors.UNKNOWN_TOPIC_ID)],
)
def test_unknown_topics(filled: Node, version: int, error: Errors) -> None:
    assert fetch(filled, topic="none", version=version).error_code == error
    missing = fetch(filled, partition=9, version=version)
    assert missing.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_epochs_of_the_client(filled: Node) -> None:
    epoch = filled.partition("t").leader_epoch
    assert fetch(filled, current_leader_epoch=epoch).error_code == Errors.NONE
    newer = fetch(filled, current_leader_epoch=epoch + 1)
    assert newer.error_code == Errors.UNKNOWN_LEADER_EPOCH
    topic_id = filled.services.image.topics["t"].id
    filled.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=NODE_ID))
    older = fetch(filled, current_leader_epoch=epoch)
    assert older.error_code == Errors.FENCED_LEADER_EPOCH


def test_lost_leadership_is_told_with_the_leader(filled: Node) -> None:
    topic_id = filled.services.image.topics["t"].id
    endpoint = BrokerEndpoint(name="PLAINTEXT", host="two", port=9, security_protocol=0)
    filled.replay(
        RegisterBrokerRecord(
            broker_id=2, broker_epoch=20, fenced=False, rack="r", end_points=[endpoint]
        ),
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=2),
    )
    # Versions that do not know of reads from followers, and followers themselves.
    assert fetch(filled, version=10).error_code == Errors.NOT_LEADER_OR_FOLLOWER
    asked = request(filled, 0, **as_replica(3))
    response = filled.ask(asked, 16)
    ((found,),) = [topic.partitions for topic in response.responses]
    assert found.error_code == Errors.NOT_LEADER_OR_FOLLOWER
    # The epoch is compared first.
    for epoch, error in ((0, Errors.FENCED_LEADER_EPOCH), (9, Errors.UNKNOWN_LEADER_EPOCH)):
        assert fetch(filled, version=10, current_leader_epoch=epoch).error_code == error
    # A consumer that has not heard of the new leader.
    response = filled.ask(request(filled, 0, current_leader_epoch=0), 16)
    ((found,),) = [topic.partitions for topic in response.responses]
    assert found.error_code == Errors.FENCED_LEADER_EPOCH
    assert found.current_leader is not None
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (2, 1)
    (node,) = response.node_endpoints
    assert (node.node_id, node.host, node.port, node.rack) == (2, "two", 9, "r")


def test_consumers_may_read_from_followers(filled: Node) -> None:
    topic_id = filled.services.image.topics["t"].id
    filled.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=2))
    partition = filled.partition("t")
    log = partition.online_log()
    append_as_follower(log, batch(2, base_offset=6, leader_epoch=1), leader_epoch=1, now_ms=0)
    for version in (11, 16):
        found = fetch(filled, 4, version=version)
        assert (found.error_code, offsets(found), found.high_watermark) == (0, [4], 6)
    # What the leader has not called committed is not read.
    assert offsets(fetch(filled, 6, version=16)) == []

    async def story() -> Any:
        asked = request(filled, 6, max_wait_ms=60_000, max_bytes=1 << 20)
        answer = filled.services.loop.create_task(filled.asked(asked, 16))
        await asyncio.sleep(0.01)
        assert not answer.done()
        partition.follow(8, 0, 1)
        return await asyncio.wait_for(answer, 60)

    ((found,),) = [topic.partitions for topic in filled.run(story()).responses]
    assert offsets(found) == [6]


def test_a_consumer_is_sent_to_a_replica_in_its_rack() -> None:
    selector = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with Node(selector) as node:
        node.create_topic("t")
        node.append("t", 2)
        topic_id = node.services.image.topics["t"].id
        node.replay(
            RegisterBrokerRecord(broker_id=2, broker_epoch=20, fenced=False, rack="far"),
            PartitionChangeRecord(topic_id=topic_id, partition_id=0, replicas=[1, 2], isr=[1, 2]),
        )
        node.partition("t").replica_fetched(2, 2, 0, 20)
        found = fetch(node, 0, version=16, rack_id="far")
        assert (found.preferred_read_replica, offsets(found)) == (2, [])
        assert found.high_watermark == 2
        found = fetch(node, 0, version=16, rack_id="elsewhere")
        assert (found.preferred_read_replica, offsets(found)) == (-1, [0])
        found = fetch(node, 0, version=16)
        assert (found.preferred_read_replica, offsets(found)) == (-1, [0])


def test_logs_that_went_different_ways(filled: Node) -> None:
    assert fetch(filled, 6, last_fetched_epoch=5).error_code == Errors.OFFSET_OUT_OF_RANGE
    topic_id = filled.services.image.topics["t"].id
    filled.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=NODE_ID))
    filled.append("t", 2)
    found = fetch(filled, 8, last_fetched_epoch=0)
    assert found.diverging_epoch is not None
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 6)


# --- waiting


def test_a_fetch_waits_for_records(filled: Node) -> None:
    async def main() -> None:
        asked = request(filled, 6, max_wait_ms=10_000)
        waiting = asyncio.ensure_future(filled.asked(asked, 12))  # noqa: TID251
        await asyncio.sleep(0.01)
        assert not waiting.done()
        filled.append("t", 2)
        async with asyncio.timeout(60):
            ((found,),) = [topic.partitions for topic in (await waiting).responses]
        assert offsets(found) == [6]

    filled.run(main())


def test_a_fetch_waits_for_enough(filled: Node) -> None:
    async def main() -> None:
        asked = request(filled, 6, max_wait_ms=50, min_bytes=1_000_000)
        waiting = asyncio.ensure_future(filled.asked(asked, 12))  # noqa: TID251
        await asyncio.sleep(0)
        filled.append("t", 2)
        # What there is when its time is up it gets, be it enough or not.
        ((found,),) = [topic.partitions for topic in (await waiting).responses]
        assert offsets(found) == [6]

    filled.run(main())


def test_a_fetch_of_an_older_segment_does_not_wait_for_more(filled: Node) -> None:
    """What a read found up to the end of a segment is enough: the next one is a fetch away."""
    log = filled.partition("t").online_log()
    log.roll(NOW_MS)
    filled.append("t", 2)

    async def main() -> None:
        asked = request(filled, 0, max_wait_ms=10_000, min_bytes=1_000_000)
        async with asyncio.timeout(2):
            ((found,),) = [topic.partitions for topic in (await filled.asked(asked, 12)).responses]
        assert offsets(found) == [0, 2, 4]
        waiting = request(filled, 6, max_wait_ms=10_000, min_bytes=1_000_000)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await filled.asked(waiting, 12)

    filled.run(main())


def test_a_deleted_topic_ends_the_wait(filled: Node) -> None:
    async def main() -> None:
        asked = request(filled, 6, max_wait_ms=10_000)
        waiting = asyncio.ensure_future(filled.asked(asked, 12))  # noqa: TID251
        await asyncio.sleep(0)
        deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=60_000)
        await filled.asked(deletion, 6)
        async with asyncio.timeout(60):
            ((found,),) = [topic.partitions for topic in (await waiting).responses]
        assert found.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION

    filled.run(main())


def test_segments_are_given_back(filled: Node) -> None:
    """A wait holds no region of a file, and an answer that was sent none either."""
    log = filled.partition("t").online_log()
    fetch(filled, 4, max_wait_ms=20)
    fetch(filled, 6, max_wait_ms=20)
    fetch(filled, 4, max_wait_ms=20, min_bytes=1 << 20)
    assert log.segments.active.references == 0


# --- very many partitions

MANY = 3 * FETCH_PARTITIONS_PER_TURN_MAX


@pytest.fixture
def wide(node: Node) -> Node:
    """A topic of many partitions, of which the last has a batch."""
    node.create_topic("wide", partitions=MANY)
    node.append("wide", 2, number=MANY - 1)
    return node


def wide_request(node: Node, **fields: Any) -> FetchRequest:
    partitions = [FetchPartition(partition=n, partition_max_bytes=1 << 20) for n in range(MANY)]
    settings = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1} | fields
    return FetchRequest(topics=[topic_request(node, "wide", partitions)], **settings)


@pytest.mark.parametrize("version", [7, 12, 18])
def test_very_many_partitions_are_all_answered(wide: Node, version: int) -> None:
    ((*empty, last),) = [t.partitions for t in wide.ask(wide_request(wide), version).responses]
    assert [found.partition_index for found in empty] == list(range(MANY - 1))
    assert {found.high_watermark for found in empty} == {0}
    assert offsets(last) == [0]
    assert wide.partition("wide", MANY - 1).online_log().segments.active.references == 0


def test_others_have_turns_while_very_many_partitions_are_read(wide: Node) -> None:
    async def main() -> int:
        waiting = asyncio.ensure_future(wide.asked(wide_request(wide), 12))  # noqa: TID251
        turns = 0
        while not waiting.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert wide.run(main()) > 2 * MANY // FETCH_PARTITIONS_PER_TURN_MAX


def test_a_session_of_very_many_partitions_waits_and_tells_only_news(wide: Node) -> None:
    first = wide.ask(wide_request(wide, session_epoch=0), 12)
    assert first.session_id
    fields = {"session_id": first.session_id, "min_bytes": 1, "topics": []}
    moved = FetchPartition(partition=MANY - 1, fetch_offset=2, partition_max_bytes=1 << 20)
    second = wide.ask(
        FetchRequest(
            session_id=first.session_id,
            session_epoch=1,
            max_wait_ms=20,
            min_bytes=1,
            topics=[topic_request(wide, "wide", [moved])],
        ),
        12,
    )
    assert second.responses == []

    async def main() -> FetchResponse:
        asked = FetchRequest(session_epoch=2, max_wait_ms=10_000, **fields)
        waiting = asyncio.ensure_future(wide.asked(asked, 12))  # noqa: TID251
        await asyncio.sleep(0.02)
        wide.append("wide", 1, number=3)
        async with asyncio.timeout(60):
            response: FetchResponse = await waiting
        return response

    ((found,),) = [topic.partitions for topic in wide.run(main()).responses]
    assert (found.partition_index, offsets(found)) == (3, [0])
    # A few turns later nobody waits for progress any more.
    wide.run(asyncio.sleep(0.01))
    assert not any(any(wide.partition("wide", n)._waiters) for n in range(MANY))


def test_an_append_just_after_the_request_ends_its_wait(filled: Node) -> None:
    """The wait begins with the request, not when its task first runs."""

    async def main() -> None:
        asked = request(filled, 6, max_wait_ms=10_000)
        waiting = asyncio.ensure_future(filled.asked(asked, 12))  # noqa: TID251
        await asyncio.sleep(0)
        filled.append("t", 2)
        async with asyncio.timeout(60):
            await waiting

    filled.run(main())


def test_a_stopping_node_answers_those_who_wait(filled: Node) -> None:
    async def main() -> FetchResponse:
        asked = request(filled, 6, max_wait_ms=60_000)
        waiting = asyncio.ensure_future(filled.asked(asked, 12))  # noqa: TID251
        await asyncio.sleep(0.01)
        filled.services.polls.end()
        async with asyncio.timeout(60):
            response: FetchResponse = await waiting
        return response

    ((found,),) = [topic.partitions for topic in filled.run(main()).responses]
    assert offsets(found) == []


# --- sessions


def test_sessions_tell_only_news(filled: Node) -> None:
    first = filled.ask(request(filled, 0, session_epoch=0), 12)
    assert first.session_id > 0
    session = {"session_id": first.session_id}
    same = filled.ask(request(filled, 6, session_epoch=1, **session), 12)
    assert (same.session_id, same.responses) == (first.session_id, [])
    filled.append("t", 2)
    empty = FetchRequest(session_id=first.session_id, session_epoch=2, max_wait_ms=0, topics=[])
    ((found,),) = [topic.partitions for topic in filled.ask(empty, 12).responses]
    assert offsets(found) == [6]


def test_forgotten_partitions_are_not_read(filled: Node) -> None:
    first = filled.ask(request(filled, 0, session_epoch=0), 12)
    forgetting = FetchRequest(
        session_id=first.session_id,
        session_epoch=1,
        max_wait_ms=0,
        topics=[],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=[0])],
    )
    assert filled.ask(forgetting, 12).responses == []


def test_sessions_that_are_not_there_or_elsewhere(filled: Node) -> None:
    unknown = request(filled, session_id=12_345, session_epoch=1)
    assert filled.ask(unknown, 12).error_code == Errors.FETCH_SESSION_ID_NOT_FOUND
    session_id = filled.ask(request(filled, session_epoch=0), 12).session_id
    skipped = request(filled, session_id=session_id, session_epoch=2)
    assert filled.ask(skipped, 12).error_code == Errors.INVALID_FETCH_SESSION_EPOCH
