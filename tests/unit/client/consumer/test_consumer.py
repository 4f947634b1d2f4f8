from __future__ import annotations

import asyncio

import pytest

from kaa.client.consumer.consumer import Consumer
from kaa.client.consumer.records import ConsumerRecord
from kaa.client.errors import ClientError, ClosedError, KafkaError, SerializationError
from kaa.client.producer.producer import Producer
from kaa.model.topics import TopicPartition
from kaa.records import iter_batches, iter_records
from kaa.wire.errors import Errors


async def fill(bootstrap: str, topic: str, count: int, **settings: str) -> TopicPartition:
    values = {name.replace("_", "."): value for name, value in settings.items()}
    async with Producer({"bootstrap.servers": bootstrap, **values}) as producer:
        for number in range(count):
            await producer.send(
                topic, b"value %d" % number, key=b"key", partition=0, timestamp_ms=1000 + number
            )
    return TopicPartition(topic, 0)


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    while len(records) < count:
        answer = await consumer.poll(timeout_ms=10_000)
        assert answer, f"{len(records)} of {count} came"
        for some in answer.values():
            records += some
    return records


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_was_produced_is_read(bootstrap: str, topic_name: str, codec: str) -> None:
    async def run() -> None:
        partition = await fill(bootstrap, topic_name, 1200, compression_type=codec)
        settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
        async with Consumer(settings) as consumer:
            consumer.assign([partition])
            records = await read(consumer, 1200)
            assert [record.offset for record in records] == list(range(1200))
            assert records[7].value == b"value 7"
            assert records[7].key == b"key"
            assert records[7].timestamp == 1007
            assert await consumer.position(partition) == 1200
            assert consumer.high_watermark(partition) == 1200
            assert await consumer.poll(timeout_ms=50) == {}

    asyncio.run(run())


def test_seeking(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        partition = await fill(bootstrap, topic_name, 100)
        async with Consumer({"bootstrap.servers": bootstrap}) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 42)
            first = (await consumer.poll(timeout_ms=10_000, max_records=1))[partition]
            assert [record.offset for record in first] == [42]
            assert await consumer.position(partition) == 43
            await consumer.seek_to_beginning()
            assert (await read(consumer, 100))[0].offset == 0
            await consumer.seek_to_end([partition])
            assert await consumer.poll(timeout_ms=50) == {}
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 100}
            found = (await consumer.offsets_for_times({partition: 1010}))[partition]
            assert found is not None
            assert (found.offset, found.timestamp_ms) == (10, 1010)
            assert await consumer.offsets_for_times({partition: 10**9}) == {partition: None}

    asyncio.run(run())


def test_records_that_come_later_are_awaited(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        partition = await fill(bootstrap, topic_name, 1)
        async with Consumer({"bootstrap.servers": bootstrap}) as consumer:
            consumer.assign([partition])
            await consumer.position(partition)  # The end, where a consumer starts by default.
            record, _ = await asyncio.gather(anext(aiter(consumer)), fill(bootstrap, topic_name, 1))
            assert (record.topic, record.offset, record.value) == (topic_name, 1, b"value 0")

    asyncio.run(run())


def test_raw_batches(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        partition = await fill(bootstrap, topic_name, 50)
        async with Consumer({"bootstrap.servers": bootstrap}) as consumer:
            fetched = await consumer.fetch_batches(partition, 0, 1 << 20)
            records = [
                record for batch in iter_batches(fetched.data) for record in iter_records(batch)
            ]
            assert len(records) == fetched.next_offset == fetched.high_watermark == 50
            assert fetched.log_start_offset == 0
            with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
                await consumer.fetch_batches(partition, 51, 1 << 20)

    asyncio.run(run())


def test_offset_that_does_not_exist(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        partition = await fill(bootstrap, topic_name, 3)
        settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "none"}
        async with Consumer(settings) as consumer:
            consumer.assign([partition])
            with pytest.raises(ClientError, match="seek first"):
                await consumer.position(partition)
        async with Consumer(settings) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 1000)
            with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
                await consumer.poll(timeout_ms=10_000)
        settings["auto.offset.reset"] = "earliest"
        async with Consumer(settings) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 1000)
            assert len(await read(consumer, 3)) == 3

    asyncio.run(run())


def test_paused_partition_is_silent(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        partition = await fill(bootstrap, topic_name, 3)
        settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
        async with Consumer(settings) as consumer:
            consumer.assign([partition])
            consumer.pause([partition])
            assert await consumer.poll(timeout_ms=300) == {}
            consumer.resume([partition])
            assert len(await read(consumer, 3)) == 3

    asyncio.run(run())


def test_unknown_topic_and_wrong_use(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        settings = {"bootstrap.servers": bootstrap, "default.api.timeout.ms": "500"}
        async with Consumer(settings) as consumer:
            with pytest.raises(KafkaError) as refused:
                await consumer.partitions_for(topic_name)
            assert refused.value.error is Errors.UNKNOWN_TOPIC_OR_PARTITION
            with pytest.raises(ClientError, match="not assigned"):
                consumer.seek(TopicPartition(topic_name, 0), 1)
        with pytest.raises(ClosedError):
            await consumer.poll()

    asyncio.run(run())


def test_a_loop_that_is_left_early_goes_on_where_it_was(bootstrap: str, topic_name: str) -> None:
    """What the loop did not hand out counts as not read, although it was fetched."""

    async def run() -> None:
        partition = await fill(bootstrap, topic_name, 20)
        settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
        async with Consumer(settings) as consumer:
            consumer.assign([partition])

            async def loop(count: int) -> list[int]:
                found: list[int] = []
                async for record in consumer:
                    found.append(record.offset)
                    assert await consumer.position(partition) == record.offset + 1
                    if len(found) == count:
                        break
                return found

            assert await loop(3) == [0, 1, 2]
            assert await loop(2) == [3, 4]
            polled = await consumer.poll(timeout_ms=10_000, max_records=2)
            assert [record.offset for record in polled[partition]] == [5, 6]
            assert await loop(2) == [7, 8]
            consumer.seek(partition, 15)
            assert await loop(2) == [15, 16]
            consumer.pause([partition])
            assert await consumer.poll(timeout_ms=0) == {}
            consumer.resume([partition])
            assert await loop(3) == [17, 18, 19]

    asyncio.run(run())


def test_a_record_that_cannot_be_read_keeps_its_place(bootstrap: str, topic_name: str) -> None:
    def pick(value: bytes) -> bytes:
        if value == b"value 2":
            raise ValueError("no two")
        return value

    async def run() -> None:
        partition = await fill(bootstrap, topic_name, 5)
        settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
        async with Consumer(settings, value_deserializer=pick) as consumer:
            consumer.assign([partition])
            assert [record.offset for record in await read(consumer, 2)] == [0, 1]
            for _ in range(2):
                with pytest.raises(SerializationError, match=r"offset 2 of .* seek past it"):
                    await consumer.poll(timeout_ms=10_000)
            with pytest.raises(SerializationError, match="no two"):
                await anext(aiter(consumer))
            assert await consumer.position(partition) == 2
            consumer.seek(partition, 3)
            assert [record.offset for record in await read(consumer, 2)] == [3, 4]

    asyncio.run(run())
