"""aiokafka: the broker runs on a thread of its own and never blocks the loop of a test."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from kaa.testing import ApiKey, Broker

if TYPE_CHECKING:
    from collections.abc import Iterable


async def publish(bootstrap_servers: str, topic: str, values: Iterable[bytes]) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, enable_idempotence=True, retry_backoff_ms=20
    ) as producer:
        for value in values:
            await producer.send_and_wait(topic, value)


async def take(bootstrap_servers: str, group: str, topic: str, count: int) -> list[bytes]:
    async with AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
    ) as consumer:
        return [(await consumer.getone()).value for _ in range(count)]


def test_a_lost_answer_makes_no_duplicate(kafka: Broker) -> None:
    topic = kafka.topic("events")
    fault = kafka.on(ApiKey.PRODUCE).drop(times=1, after=True)
    asyncio.run(publish(kafka.bootstrap_servers, topic.name, [b"once", b"twice"]))
    assert fault.count == 1
    topic.expect(["once", "twice"])


def test_a_group_takes_what_was_published(kafka: Broker) -> None:
    topic, group = kafka.topic("events", partitions=2), kafka.group("readers")
    topic.seed([("a", "1"), ("b", "2"), ("c", "3")])
    values = asyncio.run(take(kafka.bootstrap_servers, group.id, topic.name, 3))
    assert sorted(values) == [b"1", b"2", b"3"]
    kafka.wait_for_group(group, lag=0, members=0)


def test_a_broker_inside_of_async_code() -> None:
    async def scenario() -> int:
        async with Broker() as broker:
            topic = broker.topic("events")
            await publish(broker.bootstrap_servers, topic.name, [b"x"])
            return len(topic.records())

    assert asyncio.run(scenario()) == 1
