"""A broker that is killed and comes back while records are under way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kaa.client.consumer.consumer import Consumer
from kaa.client.errors import BufferExhaustedError, ClientError, RequestTimeoutError
from kaa.client.producer.producer import Producer
from kaa.model.topics import TopicPartition
from tests.support.broker_process import BrokerProcess


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "node") as running:
        yield running


def test_every_record_once_and_in_order_over_a_crash(node: BrokerProcess) -> None:
    async def run() -> None:
        partition = TopicPartition("records", 0)
        settings = {"bootstrap.servers": node.bootstrap_servers}
        async with Producer({**settings, "batch.size": "200"}) as producer:
            deliveries = []
            for number in range(3000):
                if number == 1500:
                    await asyncio.to_thread(node.kill)
                    await asyncio.to_thread(node.start)
                deliveries.append(await producer.send("records", b"%d" % number, partition=0))
                if number % 50 == 0:
                    await asyncio.sleep(0.001)
            await producer.flush()
            for delivery in deliveries:
                delivery.result()
        async with Consumer({**settings, "auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([partition])
            values: list[bytes | None] = []
            while len(values) < 3000:
                answer = await consumer.poll(timeout_ms=5000)
                assert answer, f"only {len(values)} records came"
                values += [record.value for record in answer[partition]]
            assert values == [b"%d" % number for number in range(3000)]

    asyncio.run(run())


def test_consumer_reads_on_after_a_restart(node: BrokerProcess) -> None:
    async def run() -> None:
        partition = TopicPartition("records", 0)
        settings = {"bootstrap.servers": node.bootstrap_servers}
        async with Producer(settings) as producer:
            await producer.send("records", b"before", partition=0)
        async with Consumer({**settings, "auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([partition])
            (first,) = (await consumer.poll(timeout_ms=10_000))[partition]
            assert first.value == b"before"
            await asyncio.to_thread(node.stop)
            await asyncio.to_thread(node.start)
            async with Producer(settings) as producer:
                await producer.send("records", b"after", partition=0)
            (second,) = (await consumer.poll(timeout_ms=10_000))[partition]
            assert (second.offset, second.value) == (1, b"after")

    asyncio.run(run())


async def send_at_last(producer: Producer) -> None:
    """Sends a record with little time for it, again if a busy machine needs more."""
    async with asyncio.timeout(60):
        while True:
            try:
                await (await producer.send("records", b"x"))
            except ClientError:
                continue
            return


def test_broker_that_stays_away(node: BrokerProcess) -> None:
    async def run() -> None:
        settings = {
            "bootstrap.servers": node.bootstrap_servers,
            "buffer.memory": "1000",
            "max.block.ms": "200",
            "request.timeout.ms": "500",
            "delivery.timeout.ms": "1000",
        }
        # What is made here, a producer that is in a hurry need not wait for.
        async with Producer({"bootstrap.servers": node.bootstrap_servers}) as patient:
            await (await patient.send("records", b"x"))
        async with Producer(settings) as producer:
            await send_at_last(producer)
            node.kill()
            lost = await producer.send("records", bytes(2000))
            with pytest.raises(BufferExhaustedError, match=r"max.block.ms=200"):
                await producer.send("records", b"x")
            with pytest.raises(
                RequestTimeoutError, match=r"delivery.timeout.ms=1000; cannot connect"
            ):
                await lost

    asyncio.run(run())
