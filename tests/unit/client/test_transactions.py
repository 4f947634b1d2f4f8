"""Transactions that another client wrote to Kafka, as a consumer of each isolation level sees
them.
"""

from __future__ import annotations

import asyncio

import aiokafka
import pytest

from kaa.client.consumer import Consumer
from kaa.client.metadata import TopicPartition
from tests.oracle.broker import RealKafka

pytestmark = pytest.mark.oracle


async def write(bootstrap: str, topic: str) -> None:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    await producer.start()
    try:
        for number, commits in enumerate([True, False, True, False, False, True]):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"%d" % number, partition=0)
            if commits:
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
    finally:
        await producer.stop()


@pytest.mark.parametrize(
    ("isolation", "expected"),
    [
        ("read_committed", [b"0", b"2", b"5"]),
        ("read_uncommitted", [b"0", b"1", b"2", b"3", b"4", b"5"]),
    ],
)
def test_isolation(
    real_kafka: RealKafka, topic_name: str, isolation: str, expected: list[bytes]
) -> None:
    async def run() -> None:
        await write(real_kafka.bootstrap_servers, topic_name)
        settings = {
            "bootstrap.servers": real_kafka.bootstrap_servers,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
        }
        partition = TopicPartition(topic_name, 0)
        async with Consumer(settings) as consumer:
            consumer.assign([partition])
            values: list[bytes | None] = []
            while len(values) < len(expected):
                answer = await consumer.poll(timeout_ms=10_000)
                assert answer, values
                values += [record.value for record in answer[partition]]
            assert values == expected

    asyncio.run(run())
