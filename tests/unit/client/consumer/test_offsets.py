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
    list_offsets,
)
from kaa.client.producer.producer import Producer
from kaa.model.topics import TopicPartition


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
