from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from kaa.client import Consumer as KaaConsumer
from kaa.testing import Broker, Clock
from kaa.testing.topic import EARLIEST


@pytest.fixture(scope="module", params=["thread", "process"])
def session(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(process=request.param == "process") as running:
        yield running


@pytest.fixture
def broker(session: Broker) -> Iterator[Broker]:
    with session.isolated(session.name("test-")):
        yield session


def test_both_clocks_move_together() -> None:
    clock = Clock()
    wall_ms, monotonic_ms = clock.wall_ms(), clock.monotonic_ms()
    clock.advance(days=1, hours=1, minutes=1, seconds=1.5)
    moved_ms = (86_400 + 3600 + 60 + 1.5) * 1000
    assert moved_ms <= clock.wall_ms() - wall_ms < moved_ms + 1000
    assert moved_ms <= clock.monotonic_ms() - monotonic_ms < moved_ms + 1000
    assert clock.is_ahead
    clock.reset()
    assert clock.wall_ms() - wall_ms < 10_000
    for span in (-1, 21):
        with pytest.raises(ValueError, match="time moves ahead"):
            clock.advance(days=span)


def test_a_span_has_a_unit() -> None:
    clock = Clock()
    clock.advance(timedelta(minutes=1), seconds=1)
    assert clock.shift_ns == 61 * 10**9
    bare: Any
    for bare in (5, -5, "5"):
        with pytest.raises(TypeError, match=r"has no unit; write advance\(seconds="):
            clock.advance(bare)


def test_retention_takes_what_is_old(broker: Broker) -> None:
    topic = broker.topic(retention_ms=60_000)
    topic.seed(["a", "b"])
    broker.clock.advance(minutes=30)
    broker.wait_for(lambda: topic.offsets(EARLIEST) == {0: 2}, timeout=5, what="retention")
    assert topic.records() == []
    topic.seed([{"value": "new", "timestamp_ms": broker.clock.wall_ms()}])
    topic.expect(["new"])


def test_a_member_that_says_nothing_loses_its_place(broker: Broker) -> None:
    topic, group = broker.topic(), broker.group()
    topic.seed(["a"])
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group.id,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 20_000,
        }
    )
    try:
        consumer.subscribe([topic.name])
        assert len(consumer.consume(1, 20)) == 1
        broker.wait_for_group(group, state="Stable", members=1)
        broker.clock.advance(seconds=31)
        broker.wait_for_group(group, state="Empty", members=0)
    finally:
        consumer.close()


def test_a_transaction_that_nobody_ends_is_aborted(broker: Broker) -> None:
    topic = broker.topic()
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": broker.name("writer"),
            "transaction.timeout.ms": 30_000,
        }
    )
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic.name, b"never")
    assert producer.flush(10) == 0
    assert topic.offsets() == {0: 1}
    broker.clock.advance(seconds=50)
    # The marker that ends the transaction takes an offset too.
    broker.wait_for(lambda: topic.offsets() == {0: 2}, what="the end of the transaction")
    with pytest.raises(KafkaException):
        producer.commit_transaction(10)


def test_a_member_of_the_newer_protocol_loses_its_place_too(broker: Broker) -> None:
    topic, group = broker.topic(), broker.group()
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group.id,
        "group.protocol": "consumer",
    }

    async def run() -> None:
        async with KaaConsumer(settings) as consumer:
            consumer.subscribe([topic.name])
            async with asyncio.timeout(60):
                while not consumer.assignment:
                    await consumer.poll(timeout_ms=20)
            await asyncio.to_thread(broker.wait_for, group, state="Stable", members=1)
            assert list(group.assignment().values()) == [[(topic.name, 0)]]
            with broker.on("ConsumerGroupHeartbeat", group=group).drop():
                broker.clock.advance(seconds=60)
                await asyncio.to_thread(broker.wait_for, group, state="Empty", members=0)

    asyncio.run(run())


def test_the_next_test_has_the_time_of_the_machine(session: Broker) -> None:
    with session.isolated("first-"):
        session.clock.advance(days=20)
        assert session.topic().records() == []
    assert not session.clock.is_ahead
    assert abs(session.clock.wall_ms() - time.time() * 1000) < 10_000
    assert session.topic_names() == []


def test_time_stays_moved_over_a_restart(broker: Broker) -> None:
    broker.clock.advance(days=1)
    broker.restart()
    assert broker.clock.wall_ms() > (time.time() + 80_000) * 1000


def test_the_clock_does_not_follow_replaced_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    monkeypatch.setattr(time, "monotonic_ns", lambda: 0)
    assert clock.monotonic_ms() > 0
    assert clock.wall_ms() > 1_700_000_000_000


def test_a_broker_runs_on_while_the_time_of_a_test_stands_still(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    topic = broker.topic()
    topic.seed(["a"])
    topic.expect(["a"])
    with pytest.raises(AssertionError):
        topic.expect(["b"], timeout=0.05)
    monkeypatch.undo()
