"""A client speaks: what its user must know is a warning of the standard library's logging."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from kaa.client import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition
from kaa.client.errors import UnreachableError
from kaa.testing import Broker
from kaa.wire.errors import Errors
from tests.support.ports import free_port


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        one.getMessage()
        for one in caplog.records
        if one.levelno >= logging.WARNING and one.name.startswith("kaa.client.")
    ]


def test_a_broker_that_nobody_reaches(caplog: pytest.LogCaptureFixture) -> None:
    address = f"127.0.0.1:{free_port()}"

    async def run() -> None:
        settings = {"bootstrap.servers": address, "max.block.ms": 700}
        async with Producer(settings) as producer:
            with pytest.raises(UnreachableError, match=f"cannot connect to {address}"):
                await producer.send("t", b"x")

    begun = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - begun < 20, "a wait that ends"
    (warning,) = warnings_of(caplog)
    assert warning.startswith(f"cannot connect to {address}: Connection refused; ")
    assert "check that a broker listens there" in warning


def test_a_consumer_that_waits_for_a_broker_says_so_and_when_it_came(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="kaa.client")

    async def run(broker: Broker) -> None:
        address = broker.bootstrap_servers
        await asyncio.to_thread(broker.kill)
        settings = {"bootstrap.servers": address, "auto.offset.reset": "earliest"}
        async with Consumer(settings) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            assert await consumer.poll(timeout_ms=300) == {}
            assert len(warnings_of(caplog)) == 1
            await asyncio.to_thread(broker.restart)
            async with asyncio.timeout(30):
                await consumer.position(TopicPartition("t", 0))
        assert f"{address} is reachable again" in caplog.messages

    with Broker() as broker:
        broker.topic("t")
        asyncio.run(run(broker))


@pytest.mark.parametrize("protocol", [None, "classic", "consumer"])
def test_a_topic_that_is_not_there(caplog: pytest.LogCaptureFixture, protocol: str | None) -> None:
    caplog.set_level(logging.INFO, logger="kaa.client")

    async def run(broker: Broker) -> None:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        if protocol is not None:
            settings |= {"group.id": "g", "group.protocol": protocol}
        async with Consumer(settings) as consumer:
            if protocol is None:
                consumer.assign([TopicPartition("ordres", 0)])
            else:
                consumer.subscribe(["ordres"])
            async with asyncio.timeout(30):
                while not warnings_of(caplog):
                    assert await consumer.poll(timeout_ms=50) == {}
            (warning,) = warnings_of(caplog)
            assert warning.startswith("topic 'ordres': UNKNOWN_TOPIC_OR_PARTITION")
            assert "check its name" in warning
            async with Admin(settings) as admin:
                await admin.create_topics([NewTopic("ordres", 1, 1)])
            async with asyncio.timeout(30):
                while "topic 'ordres' exists now" not in caplog.messages:
                    await consumer.poll(timeout_ms=50)

    with Broker(overrides={"auto.create.topics.enable": "false"}) as broker:
        asyncio.run(run(broker))


def test_a_producer_of_a_topic_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    async def run(broker: Broker) -> None:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "max.block.ms": 2000}
        async with Producer(settings) as producer:
            with pytest.raises(KafkaError) as caught:
                await producer.send("ordres", b"x")
        assert caught.value.error is Errors.UNKNOWN_TOPIC_OR_PARTITION

    with Broker(overrides={"auto.create.topics.enable": "false"}) as broker:
        asyncio.run(run(broker))
    (warning,) = warnings_of(caplog)
    assert warning.startswith("topic 'ordres': UNKNOWN_TOPIC_OR_PARTITION")


def test_a_topic_that_is_created_is_not_worth_a_word(caplog: pytest.LogCaptureFixture) -> None:
    async def run(broker: Broker) -> None:
        async with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            await producer.send("new", b"x")

    with Broker() as broker:
        asyncio.run(run(broker))
    assert warnings_of(caplog) == []


@pytest.mark.parametrize("protocol", [None, "classic"])
def test_a_name_that_cannot_be_is_raised_by_poll_as_in_java(
    caplog: pytest.LogCaptureFixture, protocol: str | None
) -> None:
    async def run(broker: Broker) -> None:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        if protocol is not None:
            settings |= {"group.id": "g", "group.protocol": protocol}
        async with Consumer(settings) as consumer:
            if protocol is None:
                consumer.assign([TopicPartition("no spaces", 0)])
            else:
                consumer.subscribe(["no spaces"])
            with pytest.raises(KafkaError) as caught:
                await asyncio.wait_for(consumer.poll(), 30)
        assert caught.value.error is Errors.INVALID_TOPIC_EXCEPTION

    with Broker() as broker:
        asyncio.run(run(broker))


def test_records_that_are_gone(caplog: pytest.LogCaptureFixture) -> None:
    async def run(broker: Broker) -> None:
        partition = TopicPartition("t", 0)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
        async with Consumer(settings) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 100)
            async with asyncio.timeout(30):
                (record,) = (await consumer.poll())[partition]
        assert record.offset == 0

    with Broker() as broker:
        broker.topic("t").seed(["a"])
        asyncio.run(run(broker))
    (warning,) = warnings_of(caplog)
    assert warning.startswith("offset 100 of t-0 no longer exists; resetting the position")


def test_a_member_that_polls_too_seldom(caplog: pytest.LogCaptureFixture) -> None:
    async def run(broker: Broker) -> None:
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "max.poll.interval.ms": 500,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 100,
        }
        async with Consumer(settings) as consumer:
            consumer.subscribe(["t"])
            async with asyncio.timeout(30):
                while not consumer.assignment:
                    await consumer.poll(timeout_ms=50)
                while not warnings_of(caplog):  # noqa: ASYNC110  The log has no event.
                    await asyncio.sleep(0.05)

    with Broker() as broker:
        broker.topic("t")
        asyncio.run(run(broker))
    first = warnings_of(caplog)[0]
    assert "did not poll for max.poll.interval.ms=500" in first
    assert "leaves group 'g'" in first
