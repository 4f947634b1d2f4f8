from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kaa.client import AcknowledgeType
from kaa.client.share.fetched import ShareRecord
from kaa.client.sync import Producer, ShareConsumer
from kaa.testing import Broker, RefusedError, ShareGroup, Topic
from kaa.testing.report import sections
from tests.support.pace import PATIENCE_SECONDS

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


@pytest.fixture(scope="module")
def session() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def broker(session: Broker) -> Iterator[Broker]:
    with session.isolated(session.name("test-")):
        yield session
    assert session.reports == []


@pytest.fixture(params=["thread", "process"])
def either(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker inside of this process, and one in a child."""
    if request.param == "thread":
        yield request.getfixturevalue("broker")
        return
    with Broker(process=True) as running:
        yield running


@contextmanager
def member(broker: Broker, group: ShareGroup, topic: Topic) -> Iterator[ShareConsumer]:
    with ShareConsumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group.id,
            "share.acknowledgement.mode": "explicit",
        }
    ) as made:
        made.subscribe([topic.name])
        yield made


def taken(consumer: ShareConsumer, count: int) -> list[ShareRecord]:
    """So many records, which one poll may not give at once."""
    found: list[ShareRecord] = []
    while len(found) < count:
        some = consumer.poll(int(PATIENCE_SECONDS * 1000))
        assert some
        found += some
    return found


def queue(broker: Broker, values: list[str], **configs: object) -> tuple[Topic, ShareGroup]:
    topic = broker.topic("jobs")
    topic.seed(values)
    return topic, broker.share_group("workers", share_auto_offset_reset="earliest", **configs)


def test_a_queue_is_followed_from_its_first_member_to_its_end(either: Broker) -> None:
    broker = either
    topic, group = queue(broker, ["a", "b", "c", "d"])
    assert group.id == f"{broker.prefix}workers"
    assert (group.state(), group.member_count(), group.assignment()) == ("Dead", 0, {})
    assert (group.lag(), group.start_offsets()) == (None, {})
    assert group.acknowledged() == group.archived() == []
    assert group.in_flight() == group.delivered() == []
    with member(broker, group, topic) as consumer:
        records = taken(consumer, 4)
        broker.wait_for(group, members=1, state="Stable", in_flight=4, delivered=4)
        assert list(group.assignment().values()) == [[(topic.name, 0)]]
        assert [record.value for record in group.in_flight()] == [b"a", b"b", b"c", b"d"]
        assert group.in_flight("nobody") == []
        for record, kind in zip(records, [ACCEPT, REJECT, ACCEPT, RELEASE], strict=True):
            consumer.acknowledge(record, kind)
        consumer.commit()
        broker.wait_for(group, acknowledged=2, archived=1)
        group.expect(["a", "c"], archived=["b"])
        assert (group.lag(), group.start_offsets()) == (1, {(topic.name, 0): 0})
        (again,) = taken(consumer, 1)
        assert (again.value, again.delivery_count) == (b"d", 2)
        assert [record.delivery_count for record in group.delivered()] == [1, 1, 1, 1, 2]
        consumer.acknowledge(again)
        consumer.commit()
        broker.wait_for(group, lag=0, in_flight=0)
        # What lies before the start of the group is still known.
        group.expect(["d", (None, "c"), {"value": "a", "offset": 0}], archived=["b"])
        shown = dict(sections(broker))["kafka: groups"].splitlines()
        assert shown[0] == f"{group.id}: share group, Stable, 1 member"
        assert shown[-1] == "  3 records acknowledged, 1 given up"
    broker.wait_for(group, state="Empty", members=0)


def test_what_was_expected_and_what_is_there_are_shown(broker: Broker) -> None:
    topic, group = queue(broker, ["a", "b"])
    with member(broker, group, topic) as consumer:
        for record in taken(consumer, 2):
            consumer.acknowledge(record, REJECT if record.value == b"b" else ACCEPT)
        consumer.commit()
    with pytest.raises(AssertionError) as failed:
        group.expect(["a", "b"], timeout=0.1)
    assert str(failed.value).splitlines() == [
        f"share group {group.id}, acknowledged: 2 records expected in any order, 1 found",
        "  'a'  [partition 0, offset 0]",
        "- 'b'",
    ]
    with pytest.raises(AssertionError, match=r"archived: 0 records expected .* 1 found"):
        group.expect(["a"], archived=[])
    with pytest.raises(TimeoutError, match=r"workers; it has acknowledged 1"):
        broker.wait_for(group, acknowledged=2, timeout=0.05)
    with pytest.raises(TypeError, match=r"no acknowledged to wait for; it has lag, state, members"):
        broker.wait_for_group(broker.group("workers"), acknowledged=2)


def test_a_record_that_is_delivered_too_often_is_given_up(broker: Broker) -> None:
    topic, group = queue(broker, ["poison"], share_delivery_count_limit=2)
    with member(broker, group, topic) as consumer:
        for _ in range(2):
            for record in taken(consumer, 1):
                consumer.acknowledge(record, RELEASE)
            consumer.commit()
        group.expect([], archived=["poison"])
        assert len(group.delivered()) == 2


def test_a_lock_that_runs_out_gives_the_record_back(broker: Broker) -> None:
    topic, group = queue(broker, ["a"])
    with member(broker, group, topic) as consumer:
        taken(consumer, 1)
        broker.wait_for(group, in_flight=1)
        broker.clock.advance(minutes=1)
        broker.wait_for(group, in_flight=0)
        group.expect([], archived=[])


def test_a_group_is_reset(broker: Broker) -> None:
    topic, group = queue(broker, ["a", "b"])
    with member(broker, group, topic) as consumer:
        for record in taken(consumer, 2):
            consumer.acknowledge(record)
        consumer.commit()
        group.expect(["a", "b"])
        with pytest.raises(RefusedError, match="NON_EMPTY_GROUP"):
            group.reset(topic)
    broker.wait_for(group, members=0)
    assert group.reset(topic) == {0: 0}
    group.expect([])
    assert (group.lag(), group.start_offsets()) == (2, {(topic.name, 0): 0})
    assert group.reset(topic.name, "latest") == {0: 2}
    assert group.reset(topic, 1) == {0: 1}
    assert group.reset(topic, {0: 1}) == {0: 1}
    with pytest.raises(ValueError, match="is not a position"):
        group.reset(topic, "somewhere")
    with member(broker, group, topic) as consumer:
        (record,) = taken(consumer, 1)
        assert record.value == b"b"


def test_what_is_acknowledged_is_known_after_a_restart(broker: Broker) -> None:
    topic, group = queue(broker, ["a", "b"])
    with member(broker, group, topic) as consumer:
        first, _ = taken(consumer, 2)
        consumer.acknowledge(first)
        consumer.commit()
    broker.restart()
    group.expect(["a"])
    broker.wait_for(group, in_flight=0)


def test_offsets_without_a_record_are_no_records(broker: Broker) -> None:
    topic = broker.topic("jobs")
    group = broker.share_group("workers", share_auto_offset_reset="earliest")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": group.id}
    with Producer(settings) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic.name, b"a")
    topic.seed(["b"])
    with member(broker, group, topic) as consumer:
        for record in taken(consumer, 2):
            consumer.acknowledge(record)
        consumer.commit()
    group.expect(["a", "b"])
    assert [record.offset for record in group.delivered()] == [0, 2]


def test_a_cluster_that_runs_already_says_what_is_stored(broker: Broker) -> None:
    topic, group = queue(broker, ["a"])
    with member(broker, group, topic) as consumer:
        for record in taken(consumer, 1):
            consumer.acknowledge(record)
        consumer.commit()
    with Broker(bootstrap_servers=broker.bootstrap_servers) as foreign:
        found = foreign.existing_share_group(group.id)
        found.expect(["a"])
        with pytest.raises(RuntimeError, match="in flight"):
            found.in_flight()


def test_settings_end_with_their_test(session: Broker) -> None:
    with session.isolated("first-"):
        group = session.share_group("workers", share_record_lock_duration_ms=20_000)
        with pytest.raises(RefusedError):
            group.configure(share_record_lock_duration_ms=1)
    group.take_back_settings()  # Nothing is left to take back.
