"""aiokafka against a running node."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError

from tests.clients.samples import CODECS, Sample
from tests.clients.samples import SAMPLES as ALL_SAMPLES
from tests.support.pace import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

# This client sends no record without both key and value.
SAMPLES = [sample for sample in ALL_SAMPLES if (sample.key, sample.value) != (None, None)]


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await work

    asyncio.run(limited())


@asynccontextmanager
async def producer(bootstrap: str, **settings: Any) -> AsyncIterator[Any]:
    made = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, **settings)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


@asynccontextmanager
async def reader(
    bootstrap: str, topic: str, offset: int = 0, **settings: Any
) -> AsyncIterator[Any]:
    made = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="none", **settings)
    await made.start()
    try:
        partition = TopicPartition(topic, 0)
        made.assign([partition])
        made.seek(partition, offset)
        yield made
    finally:
        await made.stop()


async def send(client: Any, topic: str, samples: list[Sample]) -> list[int]:
    sent = [
        await client.send(
            topic,
            sample.value,
            key=sample.key,
            headers=list(sample.headers),
            partition=0,
            timestamp_ms=sample.timestamp_ms,
        )
        for sample in samples
    ]
    return [found.offset for found in await asyncio.gather(*sent)]


async def take(client: Any, count: int) -> list[Sample]:
    return [as_sample(await client.getone()) for _ in range(count)]


def as_sample(found: Any) -> Sample:
    return Sample(found.key, found.value, found.timestamp, tuple(found.headers))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("is_idempotent", [False, True])
def test_records_come_back_as_they_were(
    bootstrap: str, topic: str, codec: str, is_idempotent: bool
) -> None:
    async def main() -> None:
        compression = None if codec == "none" else codec
        settings = {"compression_type": compression, "enable_idempotence": is_idempotent}
        async with producer(bootstrap, **settings) as client:
            assert await send(client, topic, SAMPLES) == list(range(len(SAMPLES)))
        async with reader(bootstrap, topic) as client:
            assert await take(client, len(SAMPLES)) == SAMPLES
        async with reader(bootstrap, topic, 3, isolation_level="read_committed") as client:
            assert await take(client, len(SAMPLES) - 3) == SAMPLES[3:]

    run(main())


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acknowledgements(bootstrap: str, topic: str, acks: int | str) -> None:
    async def main() -> None:
        async with producer(bootstrap, acks=acks) as client:
            for sample in SAMPLES:
                await client.send(topic, sample.value, key=sample.key, partition=0)
            await client.flush()
        async with reader(bootstrap, topic) as client:
            found = await take(client, len(SAMPLES))
            assert [sample[:2] for sample in found] == [sample[:2] for sample in SAMPLES]

    run(main())


def test_positions_and_limits(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        partition = TopicPartition(topic, 0)
        async with producer(bootstrap, max_request_size=2_000_000) as client:
            await send(client, topic, SAMPLES)
            with pytest.raises(MessageSizeTooLargeError):
                await client.send_and_wait(topic, bytes(1_100_000), partition=0)
        async with reader(bootstrap, topic) as client:
            (found,) = (await client.offsets_for_times({partition: SAMPLES[4][2]})).values()
            assert (found.offset, found.timestamp) == (4, SAMPLES[4].timestamp_ms)
            assert await client.beginning_offsets([partition]) == {partition: 0}
            assert await client.end_offsets([partition]) == {partition: len(SAMPLES)}
        async with reader(bootstrap, topic, 999) as client:
            with pytest.raises(OffsetOutOfRangeError):
                await client.getone()

    run(main())


def test_a_reader_waits_for_records(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with producer(bootstrap) as sender, asyncio.TaskGroup() as tasks:
            await send(sender, topic, SAMPLES[:1])
            async with reader(bootstrap, topic, 1) as client:
                waiting = tasks.create_task(take(client, 2))
                await asyncio.sleep(0.3)
                assert not waiting.done()
                await send(sender, topic, SAMPLES[1:3])
                assert await waiting == SAMPLES[1:3]

    run(main())


def test_topics(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(topic, 4, 1)])
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 4
            assert topic in await admin.list_topics()
            await admin.delete_topics([topic])
            while topic in await admin.list_topics():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        finally:
            await admin.close()

    run(main())
