from __future__ import annotations

import asyncio

import pytest

from kaa.client.admin.admin import Admin
from kaa.client.consumer.offsets import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    READ_COMMITTED,
    duration_ms,
    find_offsets,
    list_offsets,
)
from kaa.client.errors import KafkaError
from kaa.client.producer.producer import Producer
from kaa.model.topics import TopicPartition
from kaa.testing import Broker
from tests.support.leaderless import without_leader


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1S", 1000),
        ("PT1H30M", 5_400_000),
        ("P2D", 172_800_000),
        ("PT0.25S", 250),
        ("P1DT1S", 86_401_000),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "1h", "P1H"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        duration_ms(text)


def test_offsets_by_time(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        partition = TopicPartition(topic_name, 0)
        async with Producer({"bootstrap.servers": bootstrap}) as producer:
            for timestamp_ms in (10, 30, 20):
                await producer.send(topic_name, b"x", partition=0, timestamp_ms=timestamp_ms)
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            expected = {EARLIEST: 0, LATEST: 3, MAX_TIMESTAMP: 1, 15: 1, 31: -1}
            for time_ms, offset in expected.items():
                found = await list_offsets(
                    admin.cluster, {partition: time_ms}, 10_000, READ_COMMITTED
                )
                assert found[partition].offset == offset

    asyncio.run(run())


def test_partitions_that_can_be_asked_are_found_without_those_that_cannot() -> None:
    async def run(broker: Broker) -> None:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 10}
        led, other = TopicPartition("t", 1), TopicPartition("t", 0)
        async with Admin(settings) as admin:
            topic = await admin.describe_topic("t")
        async with Admin(settings) as admin:
            with without_leader(broker, topic, {0}):
                wanted = {other: LATEST, led: LATEST}
                found = await find_offsets(admin.cluster, wanted, 30_000)
                assert found.offsets[led].offset == 0
                (failure,) = found.failures.items()
                assert failure[0] == other
                assert "partition t-0: LEADER_NOT_AVAILABLE" in str(failure[1])
                with pytest.raises(KafkaError, match="LEADER_NOT_AVAILABLE"):
                    await find_offsets(admin.cluster, {other: LATEST}, 100)
                with pytest.raises(KafkaError, match="LEADER_NOT_AVAILABLE"):
                    await list_offsets(admin.cluster, wanted, 100)

    with Broker() as broker:
        broker.topic("t", partitions=2)
        asyncio.run(run(broker))
