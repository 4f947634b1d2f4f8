"""Groups in which members of Kaa, Java and librdkafka sit side by side."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from kaa.client.admin.admin import Admin, NewTopic
from kaa.client.consumer.consumer import Consumer
from kaa.client.producer.producer import Producer
from kaa.testing import Broker
from tests.oracle import Oracle
from tests.unit.client.waiting import until

PREFIX = "org.apache.kafka.clients.consumer."
PARTITIONS = 5
JAVA_RECORDS = 10


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    overrides = {
        "group.consumer.heartbeat.interval.ms": 100,
        "group.consumer.min.heartbeat.interval.ms": 100,
    }
    with Broker(overrides=overrides) as running:
        yield running


async def shares(bootstrap: str, group: str) -> list[int]:
    """How many partitions each member has, if the group is stable."""
    async with Admin({"bootstrap.servers": bootstrap}) as admin:
        found = (await admin.describe_groups([group]))[group]
        if isinstance(found, Exception) or found.state != "Stable":
            return []
        owned = [one for member in found.members for one in member.assignment]
        assert len(owned) == len(set(owned)), "a partition has two owners"
        return sorted(len(member.assignment) for member in found.members)


async def is_alone(bootstrap: str, group: str) -> bool:
    return await shares(bootstrap, group) == [PARTITIONS]


async def poll_until_shared(consumer: Consumer, group: str, expected: list[int]) -> None:
    bootstrap = consumer.values.get_list("bootstrap.servers")[0]
    async with asyncio.timeout(60):
        while True:
            await consumer.poll(timeout_ms=50)
            if await shares(bootstrap, group) == expected:
                return


async def feed(bootstrap: str, topic: str) -> None:
    async with Producer({"bootstrap.servers": bootstrap}) as producer:
        for number in range(20 * PARTITIONS):
            await producer.send(topic, b"x", partition=number % PARTITIONS)


def settings(bootstrap: str, group: str, protocol: str, strategy: str) -> dict[str, str]:
    given = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
    }
    if protocol == "classic":
        given["partition.assignment.strategy"] = PREFIX + strategy
        given["heartbeat.interval.ms"] = "100"
    return given


@pytest.mark.oracle
@pytest.mark.parametrize("first", ["kaa", "java"])
@pytest.mark.parametrize(
    ("protocol", "strategy"),
    [
        ("classic", "RangeAssignor"),
        ("classic", "RoundRobinAssignor"),
        ("classic", "StickyAssignor"),
        ("classic", "CooperativeStickyAssignor"),
        ("consumer", ""),
    ],
)
def test_with_java(
    broker: Broker,
    oracle: Oracle,
    topic_name: str,
    tmp_path: Path,
    protocol: str,
    strategy: str,
    first: str,
) -> None:
    """The first member leads a classic group, and assigns partitions to the other."""
    bootstrap = broker.bootstrap_servers
    config = tmp_path / "client.properties"
    config.write_text("heartbeat.interval.ms=100\n" if protocol == "classic" else "")
    options = ["--group-protocol", protocol]
    if protocol == "classic":
        options += ["--assignment-strategy", PREFIX + strategy]

    def java() -> list[dict[str, object]]:
        done = oracle.run_tool(
            "VerifiableConsumer",
            *("--bootstrap-server", bootstrap, "--topic", topic_name, "--group-id", topic_name),
            *("--max-messages", str(JAVA_RECORDS), "--reset-policy", "earliest"),
            *("--command-config", str(config), *options),
        )
        assert done.code == 0, done.err
        return [json.loads(line) for line in done.out.splitlines()]

    async def run() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            await admin.create_topics([NewTopic(topic_name, PARTITIONS, 1)])
        loop = asyncio.get_running_loop()
        async with Consumer(settings(bootstrap, topic_name, protocol, strategy)) as consumer:
            if first == "java":
                other = loop.run_in_executor(None, java)
                await until(lambda: is_alone(bootstrap, topic_name))
                consumer.subscribe([topic_name])
            else:
                consumer.subscribe([topic_name])
                await poll_until_shared(consumer, topic_name, [PARTITIONS])
                other = loop.run_in_executor(None, java)
            await poll_until_shared(consumer, topic_name, [2, 3])
            await feed(bootstrap, topic_name)
            await poll_until_shared(consumer, topic_name, [PARTITIONS])
            told = await other
        kinds = {str(event["name"]) for event in told}
        assert {"partitions_assigned", "records_consumed", "shutdown_complete"} <= kinds

    asyncio.run(run())


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_with_librdkafka(broker: Broker, topic_name: str, strategy: str) -> None:
    bootstrap = broker.bootstrap_servers

    async def run() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            await admin.create_topics([NewTopic(topic_name, PARTITIONS, 1)])
        given = settings(bootstrap, topic_name, "classic", "RangeAssignor")
        given["partition.assignment.strategy"] = strategy
        stopped = asyncio.Event()

        def serve() -> None:
            other = confluent_kafka.Consumer(
                {
                    "bootstrap.servers": bootstrap,
                    "group.id": topic_name,
                    "partition.assignment.strategy": strategy,
                    "heartbeat.interval.ms": 100,
                }
            )
            other.subscribe([topic_name])
            while not stopped.is_set():
                other.poll(0.05)
            other.close()

        loop = asyncio.get_running_loop()
        async with Consumer(given) as consumer:
            consumer.subscribe([topic_name])
            await poll_until_shared(consumer, topic_name, [PARTITIONS])
            serving = loop.run_in_executor(None, serve)
            try:
                await poll_until_shared(consumer, topic_name, [2, 3])
            finally:
                stopped.set()
            await poll_until_shared(consumer, topic_name, [PARTITIONS])
            await serving

    asyncio.run(run())
