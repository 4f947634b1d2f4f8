from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from kaa.client.errors import (
    BufferExhaustedError,
    ClientError,
    ClosedError,
    KafkaError,
    RequestTimeoutError,
    SerializationError,
)
from kaa.client.producer.producer import Producer
from kaa.wire.errors import Errors
from tests.support.broker_process import BrokerProcess
from tests.support.ports import LOOPBACK, free_port


def test_records_are_delivered_in_order(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        settings = {"bootstrap.servers": bootstrap, "batch.size": "300", "linger.ms": "1"}
        async with Producer(settings) as producer:
            deliveries = [
                await producer.send(topic_name, b"value %d" % number, partition=0)
                for number in range(500)
            ]
            await producer.flush()
            assert all(delivery.done() for delivery in deliveries)
            answers = [delivery.result() for delivery in deliveries]
        assert [answer.offset for answer in answers] == list(range(500))
        assert {answer.partition for answer in answers} == {0}

    asyncio.run(run())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(bootstrap: str, topic_name: str, codec: str) -> None:
    async def run() -> None:
        settings = {"bootstrap.servers": bootstrap, "compression.type": codec}
        async with Producer(settings) as producer:
            delivery = await producer.send(
                topic_name, b"x" * 5000, key=b"k", headers=[("h", b"v"), ("n", None)]
            )
            answer = await delivery
        assert (answer.topic, answer.offset) == (topic_name, 0)

    asyncio.run(run())


@pytest.mark.parametrize("acks", ["0", "1"])
def test_weaker_acknowledgements(bootstrap: str, topic_name: str, acks: str) -> None:
    async def run() -> None:
        async with Producer({"bootstrap.servers": bootstrap, "acks": acks}) as producer:
            answer = await (await producer.send(topic_name, b"x", timestamp_ms=7))
        assert answer.offset == (-1 if acks == "0" else 0)
        assert answer.timestamp_ms == 7

    asyncio.run(run())


def test_record_that_the_topic_refuses_fails_and_later_ones_pass(
    bootstrap: str, topic_name: str
) -> None:
    """A batch that is given up starts a new epoch, so that the next numbers are accepted."""

    async def run() -> None:
        settings = {"bootstrap.servers": bootstrap, "max.request.size": "5000000"}
        async with Producer(settings) as producer:
            first = await producer.send(topic_name, b"small")
            assert (await first).offset == 0
            too_large = await producer.send(topic_name, bytes(2_000_000))
            with pytest.raises(KafkaError, match=r"raise max.message.bytes") as refused:
                await too_large
            assert refused.value.error is Errors.MESSAGE_TOO_LARGE
            assert (await (await producer.send(topic_name, b"again"))).offset == 1

    asyncio.run(run())


def test_wrong_use_is_told(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        settings = {"bootstrap.servers": bootstrap}
        idle = Producer(settings)
        with pytest.raises(ClientError, match="not known yet"):
            idle.send_nowait(topic_name, b"x")
        async with Producer(settings) as producer:
            await producer.partitions_for(topic_name)
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                producer.send_nowait(topic_name, b"x", partition=99)
            hint = r"or raise max.request.size .* \(kaa produce -X max.request.size="
            with pytest.raises(KafkaError, match=rf"max.request.size is 1048576; .* {hint}"):
                producer.send_nowait(topic_name, bytes(1_048_576))
        with pytest.raises(ClosedError):
            producer.send_nowait(topic_name, b"x")

    asyncio.run(run())


def test_memory_is_bounded_and_waiting_for_it_ends_lingering(
    bootstrap: str, topic_name: str
) -> None:
    async def run() -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "buffer.memory": "1000",
            "linger.ms": "100000",
            "delivery.timeout.ms": "200000",
        }
        async with Producer(settings) as producer:
            await producer.partitions_for(topic_name)
            first = producer.send_nowait(topic_name, bytes(2000))
            with pytest.raises(BufferExhaustedError):
                producer.send_nowait(topic_name, b"x")
            async with asyncio.timeout(60):
                await producer.send(topic_name, b"x")
            assert first.done()

    asyncio.run(run())


def test_block_that_fails_sends_no_more(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        settings = {"bootstrap.servers": bootstrap, "linger.ms": "1000"}
        deliveries = []

        async def block() -> None:
            async with Producer(settings) as producer:
                deliveries.append(await producer.send(topic_name, b"x"))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await block()
        with pytest.raises(ClosedError, match="before the record was delivered"):
            await deliveries[0]

    asyncio.run(run())


def test_nobody_answers() -> None:
    async def run() -> None:
        settings = {"bootstrap.servers": f"{LOOPBACK}:{free_port()}", "max.block.ms": "300"}
        async with Producer(settings) as producer:
            with pytest.raises((RequestTimeoutError, ClientError), match="cannot connect"):
                await producer.send("topic", b"x")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"timestamp_ms": 1731000000000.5}, TypeError),
        ({"timestamp_ms": "1731000000000"}, TypeError),
        ({"timestamp_ms": 2**63}, ValueError),
        ({"timestamp_ms": -1}, ValueError),
        ({"partition": 0.0}, TypeError),
        ({"partition": "0"}, TypeError),
        ({"partition": 2**40}, KafkaError),
        ({"headers": [("\ud800", b"v")]}, SerializationError),
        ({"headers": [("h", 1.5)]}, TypeError),
        ({"headers": 7}, TypeError),
        ({"key": "\ud800"}, SerializationError),
        ({"key": 1.5}, TypeError),
        ({"topic": b"t"}, TypeError),
    ],
)
def test_a_record_with_a_bad_argument_fails_alone(
    kaa_node: BrokerProcess, topic_name: str, given: dict[str, Any], kind: type[Exception]
) -> None:
    async def run() -> None:
        settings = {"bootstrap.servers": kaa_node.bootstrap_servers, "linger.ms": "60000"}
        async with Producer(settings) as producer:
            first = await producer.send(topic_name, b"before", partition=0)
            with pytest.raises(kind):
                await producer.send(**{"topic": topic_name, "value": b"bad", **given})
            last = await producer.send(topic_name, b"after", partition=0)
            await producer.flush()
            assert [(await one).offset for one in (first, last)] == [0, 1]

    asyncio.run(run())


def test_a_batch_that_cannot_be_made_fails_alone(
    kaa_node: BrokerProcess, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a codec is not installed: those who wait hear of it, and others are served."""
    broken = True

    def compress(_: object, data: bytes, __: object) -> bytes:
        if broken:
            raise ModuleNotFoundError("no such codec")
        return data

    monkeypatch.setattr("kaa.client.producer.accumulator.compress", compress)

    async def run() -> None:
        nonlocal broken
        async with Producer(bootstrap_servers=kaa_node.bootstrap_servers) as producer:
            lost = await producer.send(topic_name, b"lost")
            await producer.flush()
            with pytest.raises(ClientError, match="ModuleNotFoundError: no such codec"):
                await lost
            broken = False
            assert (await (await producer.send(topic_name, b"v"))).offset == 0

    asyncio.run(run())


def test_a_request_that_cannot_be_made_fails_alone(
    kaa_node: BrokerProcess, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ZeroDivisionError("no request")

    async def run() -> None:
        async with Producer(bootstrap_servers=kaa_node.bootstrap_servers) as producer:
            with monkeypatch.context() as patch:
                patch.setattr("kaa.client.producer.sender.produce_request", refuse)
                lost = await producer.send(topic_name, b"lost")
                await producer.flush()
                with pytest.raises(ClientError, match="no request"):
                    await lost
            assert (await (await producer.send(topic_name, b"v"))).offset == 0

    asyncio.run(run())


ABANDONED = """
import asyncio, logging, sys
from kaa.client import Producer

async def run():
    producer = await Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000).start()
    await producer.send(sys.argv[2], "lost")

logging.basicConfig(format="%(message)s")
asyncio.run(run())
"""


def test_records_of_a_producer_that_was_not_closed_are_spoken_of(
    bootstrap: str, topic_name: str
) -> None:
    command = [sys.executable, "-W", "default", "-c", ABANDONED, bootstrap, topic_name]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert "records that it had not sent are lost" in done.stderr
    assert "ResourceWarning: unclosed producer" in done.stderr
