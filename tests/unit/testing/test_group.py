from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer

from kaa.testing import Broker, Group, Topic
from kaa.testing.report import sections


@pytest.fixture(scope="module")
def session() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def broker(session: Broker) -> Iterator[Broker]:
    with session.isolated(session.name("test-")):
        yield session


@contextmanager
def consumer(broker: Broker, group: Group, topic: Topic) -> Iterator[Any]:
    made = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group.id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    made.subscribe([topic.name])
    try:
        yield made
    finally:
        made.close()


def test_a_group_is_followed_from_its_first_member_to_its_end(broker: Broker) -> None:
    topic = broker.topic(partitions=2)
    topic.seed([{"value": str(number), "partition": number % 2} for number in range(6)])
    group = broker.group("workers")
    assert group.id == f"{broker.prefix}workers"
    assert group.state() == "Dead"
    assert group.committed() == {}
    assert group.lag() is None
    with consumer(broker, group, topic) as reader:
        messages = reader.consume(6, 20)
        assert len(messages) == 6
        broker.wait_for_group(group, state="Stable", members=1)
        first = next(message for message in messages if message.partition() == 0)
        reader.commit(message=first, asynchronous=False)
        assert group.committed() == {(topic.name, 0): 1}
        assert group.lag() == 5
        with pytest.raises(TimeoutError, match=r"group .*workers; it has lag 5"):
            broker.wait_for(group, lag=0, timeout=0.05)
        reader.commit(asynchronous=False)
        broker.wait_for_group(group.id, lag=0)
        shown = dict(sections(broker))["kafka: groups"].splitlines()
        assert shown[0] == f"{group.id}: Stable, 1 member"
        assert shown[1:] == [f"  {topic.name}-{number} committed 3" for number in (0, 1)]
    broker.wait_for_group(group, state="Empty", members=0)


def test_groups_are_gone_after_their_test(session: Broker) -> None:
    with session.isolated("first-"):
        topic = session.topic()
        topic.seed(["a"])
        with consumer(session, session.group("workers"), topic) as reader:
            assert len(reader.consume(1, 20)) == 1
            reader.commit(asynchronous=False)
        assert session.group_ids() == ["first-workers"]
    assert session.group_ids() == []


def test_a_group_that_lost_its_coordinator_goes_on(broker: Broker) -> None:
    topic = broker.topic()
    topic.seed(["a"])
    group = broker.group()
    with consumer(broker, group, topic) as reader:
        assert len(reader.consume(1, 20)) == 1
        reader.commit(asynchronous=False)
    broker.restart()
    assert group.committed() == {(topic.name, 0): 1}
