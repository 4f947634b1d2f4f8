from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from kaa.client import Admin, Consumer, Producer, TopicPartition
from kaa.client.errors import RequestTimeoutError
from kaa.testing import Broker
from tests.support.leaderless import without_leader
from tests.unit.client.waiting import until

if TYPE_CHECKING:
    from kaa.client.metadata import Topic


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "kaa.client.leaders"]


async def described(broker: Broker, name: str) -> Topic:
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        return await admin.describe_topic(name)


def test_a_producer_names_the_partition_that_has_no_leader(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="kaa.client")

    async def run(broker: Broker) -> None:
        topic = await described(broker, "t")
        settings = {"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 20}
        async with Producer(settings) as producer:
            with without_leader(broker, topic, {0}):
                delivery = await producer.send("t", b"x", partition=0)

                async def is_said() -> bool:
                    return bool(warnings_of(caplog))

                await until(is_said)
            await delivery
        (warning, over) = warnings_of(caplog)
        assert warning == "partition t-0 has no leader; bring a replica of the partition back"
        assert over == "partition t-0 has a leader"

    with Broker() as broker:
        broker.topic("t")
        asyncio.run(run(broker))


def test_a_record_that_is_given_up_says_that_there_was_no_leader() -> None:
    async def run(broker: Broker) -> None:
        topic = await described(broker, "t")
        settings = {"bootstrap.servers": broker.bootstrap_servers, "request.timeout.ms": 300}
        with without_leader(broker, topic, {0}):
            async with Producer(settings, delivery_timeout_ms=400) as producer:
                with pytest.raises(RequestTimeoutError, match="partition t-0 has no leader"):
                    await (await producer.send("t", b"x", partition=0))

    with Broker() as broker:
        broker.topic("t")
        asyncio.run(run(broker))


def test_a_consumer_of_a_partition_that_is_not_there_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run(broker: Broker) -> None:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 20}
        async with Consumer(settings) as consumer:
            consumer.assign([TopicPartition("t", 9)])
            async with asyncio.timeout(30):
                while not warnings_of(caplog):
                    assert await consumer.poll(timeout_ms=20) == {}

    with Broker() as broker:
        broker.topic("t")
        asyncio.run(run(broker))
    assert warnings_of(caplog) == ["topic 't' has no partition 9; it has 1 partition"]


def test_a_consumer_reads_the_other_partitions_of_its_topic() -> None:
    async def run(broker: Broker) -> None:
        topic = await described(broker, "t")
        settings = {"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 10}
        async with Producer(settings) as producer:
            await (await producer.send("t", b"x", partition=1))
        settings["auto.offset.reset"] = "earliest"
        with without_leader(broker, topic, {0}):
            async with Consumer(settings) as consumer:
                consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
                polled = await consumer.poll(timeout_ms=30_000)
        assert [record.value for record in polled[TopicPartition("t", 1)]] == [b"x"]

    with Broker() as broker:
        broker.topic("t", partitions=2)
        asyncio.run(run(broker))


def test_a_consumer_says_that_its_topic_was_deleted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="kaa.client")

    async def run(broker: Broker) -> None:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 20}
        async with Consumer(settings) as consumer, Admin(settings) as admin:
            consumer.assign([TopicPartition("t", 0)])
            await consumer.poll(timeout_ms=10)
            await admin.delete_topics(["t"])

            async def is_said() -> bool:
                await consumer.poll(timeout_ms=10)
                return bool(warnings_of(caplog))

            await until(is_said)
        (said,) = warnings_of(caplog)
        assert said.startswith("topic 't' was deleted; create it again")

    with Broker() as broker:
        broker.topic("t")
        asyncio.run(run(broker))
