"""Share consumers and brokers that refuse, delay and drop what they ask for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from kaa.client.sync import Admin, ShareConsumer
from kaa.serving.share.sessions import ShareSessions
from kaa.testing import ApiKey, Broker, Errors, ShareGroup, Topic
from kaa.testing.share_refusals import Refused
from kaa.wire.messages import k78_share_fetch as k78
from kaa.wire.messages import k79_share_acknowledge as k79
from kaa.wire.primitives import PartitionId, Uuid
from tests.support.pace import PATIENCE_SECONDS

ID, OTHER = Uuid(bytes(range(16))), Uuid(bytes(16))
ERROR = Errors.NOT_LEADER_OR_FOLLOWER
BATCH = k78.AcknowledgementBatch(first_offset=0, last_offset=3, acknowledge_types=[1])


def services(*partitions: PartitionId) -> Any:
    sessions = ShareSessions(lambda: 10)
    sessions.open("g", "m", partitions, "connection")
    return SimpleNamespace(share_partitions=SimpleNamespace(sessions=sessions))


def fetch(*rows: tuple[Uuid, int, list[k78.AcknowledgementBatch]]) -> k78.ShareFetchRequest:
    topics = [
        k78.FetchTopic(
            topic_id=topic_id,
            partitions=[k78.FetchPartition(partition_index=number, acknowledgement_batches=some)],
        )
        for topic_id, number, some in rows
    ]
    return k78.ShareFetchRequest(
        group_id="g", member_id="m", share_session_epoch=1, max_wait_ms=500, topics=topics
    )


def test_a_partition_that_only_the_session_knows_is_refused_and_stays_in_it() -> None:
    known = services(PartitionId(ID, 0), PartitionId(ID, 1))
    refused = Refused(known, fetch(), ERROR, lambda _, number: number == 1)
    rest = refused.rest()
    assert rest.max_wait_ms == 0
    assert rest.forgotten_topics_data == [k78.ForgottenTopic(topic_id=ID, partitions=[1])]
    session = known.share_partitions.sessions.get("g", "m")
    known.share_partitions.sessions.update(session, (), [PartitionId(ID, 1)])
    there = k78.ShareFetchableTopicResponse(
        topic_id=ID, partitions=[k78.PartitionData(partition_index=0, records=b"some")]
    )
    answer: Any = refused.with_refusals(k78.ShareFetchResponse(responses=[there]))
    (topic,) = answer.responses
    assert [(row.partition_index, row.error_code) for row in topic.partitions] == [
        (0, 0),
        (1, ERROR),
    ]
    assert topic.partitions[1].acknowledge_error_code == 0
    assert set(session.partitions) == {PartitionId(ID, 0), PartitionId(ID, 1)}


def test_what_is_acknowledged_with_a_refused_fetch_is_refused_too() -> None:
    request = fetch((ID, 0, [BATCH]), (OTHER, 0, [BATCH]))
    refused = Refused(services(), request, ERROR, lambda row, _: row.topic_id == ID)
    assert [topic.topic_id for topic in refused.rest().topics] == [OTHER]
    answer: Any = refused.with_refusals(k78.ShareFetchResponse())
    assert answer.responses[0].partitions[0].acknowledge_error_code == ERROR


def test_a_refused_acknowledgement_counts_for_its_session() -> None:
    row = k79.AcknowledgePartition(partition_index=0)
    request = k79.ShareAcknowledgeRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=1,
        topics=[k79.AcknowledgeTopic(topic_id=ID, partitions=[row])],
    )
    refused = Refused(services(PartitionId(ID, 5)), request, ERROR, lambda *_: True)
    assert list(refused.rows) == [PartitionId(ID, 0)]
    assert refused.rest() == k79.ShareAcknowledgeRequest(
        group_id="g", member_id="m", share_session_epoch=1
    )
    answer: Any = refused.with_refusals(k79.ShareAcknowledgeResponse())
    assert answer.responses[0].partitions[0].error_code == ERROR


# --- over the wire


@pytest.fixture(scope="module")
def session() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def broker(session: Broker) -> Iterator[Broker]:
    with session.isolated(session.name("test-")):
        yield session


@contextmanager
def member(broker: Broker, group: ShareGroup, *topics: Topic) -> Iterator[ShareConsumer]:
    with ShareConsumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group.id,
            "share.acknowledgement.mode": "explicit",
        }
    ) as made:
        made.subscribe([topic.name for topic in topics])
        yield made


def accepted(consumer: ShareConsumer, count: int) -> dict[Any, Any]:
    """Takes and accepts so many records; what the last commit said of their partitions."""
    told: dict[Any, Any] = {}
    while count:
        some = consumer.poll(int(PATIENCE_SECONDS * 1000))
        assert some
        for record in some:
            consumer.acknowledge(record)
        told = consumer.commit()
        count -= len(some)
    return told


def queue(broker: Broker, name: str = "jobs") -> tuple[Topic, ShareGroup]:
    topic = broker.topic(name)
    topic.seed(["a", "b"])
    return topic, broker.share_group("workers", share_auto_offset_reset="earliest")


def test_refused_fetches_are_tried_again(broker: Broker) -> None:
    topic, group = queue(broker)
    whole = broker.on("ShareFetch", group=group).fail("SHARE_SESSION_NOT_FOUND", times=1)
    part = broker.on(ApiKey.SHARE_FETCH, topic=topic).fail(ERROR, times=2)
    heartbeat = broker.on("ShareGroupHeartbeat").fail("COORDINATOR_NOT_AVAILABLE", times=1)
    with member(broker, group, topic) as consumer:
        accepted(consumer, 2)
    group.expect(["a", "b"])
    assert (whole.count, part.count, heartbeat.count) == (1, 2, 1)
    # Nothing was handed out that the member did not get.
    assert [record.delivery_count for record in group.delivered()] == [1, 1]


def test_a_fault_of_one_topic_leaves_the_others_alone(broker: Broker) -> None:
    sick, group = queue(broker, "sick")
    healthy, _ = queue(broker, "healthy")
    with member(broker, group, sick, healthy) as consumer:
        with broker.on("ShareFetch", topic=sick).fail("NOT_LEADER_OR_FOLLOWER"):
            accepted(consumer, 2)
            group.expect([{"value": "a"}, {"value": "b"}])
            assert {record.topic for record in group.acknowledged()} == {healthy.name}
        accepted(consumer, 2)
    broker.wait_for(group, acknowledged=4)


def test_a_refused_acknowledgement_reaches_the_member(broker: Broker) -> None:
    topic, group = queue(broker)
    fault = broker.on("ShareAcknowledge", topic=topic, partition=0).fail(
        "INVALID_RECORD_STATE", times=1
    )
    with member(broker, group, topic) as consumer:
        (error,) = accepted(consumer, 2).values()
        assert error is not None
        assert error.error is Errors.INVALID_RECORD_STATE
        assert fault.count == 1
        assert group.acknowledged() == []
        # The session goes on.
        topic.seed(["c"])
        assert list(accepted(consumer, 1).values()) == [None]
    group.expect(["c"])


def test_a_dropped_fetch_is_delivered_again(broker: Broker) -> None:
    topic, group = queue(broker)
    fault = broker.on("ShareFetch", group=group).drop(times=1, after=True)
    with member(broker, group, topic) as consumer:
        accepted(consumer, 2)
    assert fault.count == 1
    group.expect(["a", "b"])


def test_offsets_are_refused_as_a_whole_and_by_topic(broker: Broker) -> None:
    topic, group = queue(broker)
    # The helpers' own requests are never touched; those of a client are.
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        group.reset(topic)
        broker.on("DeleteShareGroupOffsets").fail("NON_EMPTY_GROUP", times=1)
        with pytest.raises(Exception, match="NON_EMPTY_GROUP"):
            admin.delete_share_group_offsets(group.id, [topic.name])
        fault = broker.on("DescribeShareGroupOffsets", group=group).fail("GROUP_ID_NOT_FOUND")
        with pytest.raises(Exception, match="GROUP_ID_NOT_FOUND"), fault:
            admin.list_share_group_offsets(group.id)
        assert any(topic.name in line for line in broker.requests)
