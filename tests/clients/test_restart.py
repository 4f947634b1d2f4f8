"""Clients that stay connected while their node is stopped or killed and comes back."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import TopicPartition

from tests.clients.librdkafka import consume, consumer, create_topic, produce, take, watermarks
from tests.clients.samples import SAMPLES
from tests.oracle.client import tool_command
from tests.oracle.environment import wait_until
from tests.support.children import running
from tests.support.pace import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.oracle import Oracle
    from tests.support.broker_process import BrokerProcess

ends = pytest.mark.parametrize("end", ["stop", "kill"])


def restart(broker: BrokerProcess, end: str) -> None:
    getattr(broker, end)()
    broker.start()


def check_values(broker: BrokerProcess, topic: str, count: int) -> None:
    """The numbers from 0 on, once each and in order."""
    found = consume(broker.bootstrap_servers, topic, count)
    assert [message.value() for message in found] == [b"%d" % number for number in range(count)]
    with consumer(broker.bootstrap_servers) as reader:
        offsets = watermarks(reader, TopicPartition(topic, 0))
    assert offsets == (0, count)


@ends
def test_kafka_python(own_broker: BrokerProcess, end: str) -> None:
    broker = own_broker
    create_topic(broker.bootstrap_servers, "t")
    command = (sys.executable, "-m", "tests.clients.numbers", broker.bootstrap_servers, "t")
    pipe = subprocess.PIPE
    with running(command, stdin=pipe, stdout=pipe, text=True) as producer:
        # It goes on for as long as it is wanted: on a busy machine a start takes longer than any
        # number of records.
        segment = broker.data_dir / "t-0" / f"{0:020d}.log"
        for _ in range(3):
            size = segment.stat().st_size
            assert wait_until(partial(is_larger, segment, size), PATIENCE_SECONDS)
            restart(broker, end)
        printed, _ = producer.communicate(timeout=PATIENCE_SECONDS)
    assert producer.returncode == 0
    count = len(printed.splitlines())
    assert count > 3, "some before each restart"
    assert [int(line) for line in printed.splitlines()] == list(range(count))
    check_values(broker, "t", count)


def is_larger(file: Path, size: int) -> bool:
    return file.stat().st_size > size


@ends
def test_aiokafka(own_broker: BrokerProcess, end: str) -> None:
    broker = own_broker

    async def main() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, enable_idempotence=True
        )
        await producer.start()
        try:
            sent = []
            for number in range(200):
                sent.append(await producer.send("t", b"%d" % number, partition=0))
                if number % 50 == 25:
                    await asyncio.to_thread(restart, broker, end)
            async with asyncio.timeout(PATIENCE_SECONDS):
                acknowledged = await asyncio.gather(*sent)
            assert [found.offset for found in acknowledged] == list(range(200))
        finally:
            await producer.stop()

    asyncio.run(main())
    check_values(broker, "t", 200)


@ends
def test_a_consumer_goes_on(own_broker: BrokerProcess, end: str) -> None:
    broker = own_broker
    create_topic(broker.bootstrap_servers, "t")
    with consumer(broker.bootstrap_servers, reconnect_backoff_max_ms=100) as reader:
        reader.assign([TopicPartition("t", 0, 0)])
        for round_number in range(3):
            produce(broker.bootstrap_servers, "t", SAMPLES)
            found = take(reader, len(SAMPLES))
            assert found[0].offset() == round_number * len(SAMPLES)
            assert [message.value() for message in found] == [one.value for one in SAMPLES]
            restart(broker, end)


def is_acknowledged(output: Path, count: int) -> bool:
    return output.read_text().count("producer_send_success") >= count


@pytest.mark.oracle
def test_java(oracle: Oracle, own_broker: BrokerProcess) -> None:
    broker, count = own_broker, 1_000
    # By itself it tries every record just once.
    config_file = broker.folder / "producer.properties"
    config_file.write_text("enable.idempotence=true\nretries=2147483647\n")
    arguments = (
        *("--bootstrap-server", broker.bootstrap_servers, "--topic", "t"),
        *("--max-messages", str(count), "--throughput", "400"),
        *("--command-config", str(config_file)),
    )
    output = broker.folder / "producer"
    with (
        output.open("wb") as stream,
        running(tool_command("VerifiableProducer", arguments), stdout=stream) as producer,
    ):
        for part in (0.1, 0.5):
            wanted = int(part * count)
            assert wait_until(partial(is_acknowledged, output, wanted), PATIENCE_SECONDS)
            restart(broker, "kill")
        assert producer.wait(PATIENCE_SECONDS) == 0
    events = [json.loads(line) for line in output.read_text().splitlines()]
    acked = [event for event in events if event["name"] == "producer_send_success"]
    assert [(event["value"], event["offset"]) for event in acked] == [
        (str(number), number) for number in range(count)
    ]
    check_values(broker, "t", count)
