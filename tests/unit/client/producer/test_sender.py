"""What a producer makes of the answers of a broker."""

from __future__ import annotations

import asyncio

import pytest

from kaa.client.errors import BufferExhaustedError, KafkaError
from kaa.client.producer.producer import Producer
from kaa.client.producer.sender import accumulator_settings
from kaa.config.client import producer_values
from kaa.records.batch import CompressionType
from kaa.testing import Broker
from kaa.wire.errors import Errors


def test_settings_of_batches() -> None:
    values = producer_values(
        {
            "bootstrap.servers": "h:1",
            "compression.type": "zstd",
            "compression.zstd.level": "7",
            "transactional.id": "t",
        }
    )
    settings = accumulator_settings(values)
    assert settings.compression_type is CompressionType.ZSTD
    assert settings.compression_level == 7
    assert settings.is_idempotent
    assert settings.is_transactional


def test_errors_that_pass_and_one_that_does_not() -> None:
    async def run(broker: Broker) -> None:
        async with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            broker.on("Produce").fail(Errors.NOT_LEADER_OR_FOLLOWER, times=2)
            assert (await (await producer.send("t", b"1"))).offset == 0
            broker.on("Produce").fail(Errors.TOPIC_AUTHORIZATION_FAILED, times=1)
            with pytest.raises(KafkaError, match="ask for an ACL on the topic"):
                await (await producer.send("t", b"2"))
            # The numbers start again under a new epoch, and nothing is held up.
            assert (await (await producer.send("t", b"3"))).offset == 1

    with Broker() as broker:
        broker.topic("t")
        asyncio.run(run(broker))


def test_memory_that_does_not_come_free() -> None:
    settings = {
        "buffer.memory": "40000",
        "max.block.ms": "100",
        "retries": "1000",
        "retry.backoff.ms": "50",
    }

    async def fill(producer: Producer) -> None:
        for _ in range(100):
            await producer.send("t", b"x" * 1000)

    async def run(broker: Broker) -> None:
        given = {**settings, "bootstrap.servers": broker.bootstrap_servers}
        async with Producer(given) as producer:
            await producer.partitions_for("t")
            with broker.on("Produce").fail(Errors.NOT_ENOUGH_REPLICAS):
                with pytest.raises(BufferExhaustedError, match=r"max\.block\.ms=100"):
                    await fill(producer)
                with pytest.raises(BufferExhaustedError):
                    producer.send_nowait("t", b"x")

    with Broker() as broker:
        topic = broker.topic("t")
        asyncio.run(run(broker))
        assert len(topic.records()) > 30


def test_a_new_epoch_waits_for_the_answers_of_the_old_one() -> None:
    """While it waits the loop goes on, or the answers would never come."""

    async def run(broker: Broker) -> None:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": "0"}
        async with Producer(settings) as producer:
            await (await producer.send("t", b"0"))
            broker.on("Produce").fail(Errors.TOPIC_AUTHORIZATION_FAILED, times=1)
            refused = await producer.send("t", b"1", partition=0)
            await asyncio.sleep(0)
            broker.on("Produce").delay(0.3, times=1)
            late = await producer.send("t", b"2", partition=1)
            with pytest.raises(KafkaError):
                await refused
            await late
            assert (await (await producer.send("t", b"3", partition=1))).partition == 1

    with Broker() as broker:
        broker.topic("t", partitions=2)
        asyncio.run(run(broker))
