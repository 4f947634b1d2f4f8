"""What people bring from other clients works, over the wire, against Kaa and Apache Kafka."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from confluent_kafka.serialization import StringDeserializer, StringSerializer

from kaa import client
from kaa.client import sync
from kaa.client.admin.configs import ConfigChange
from kaa.client.errors import ClosedError, NotSubscribedError, SerializationError
from kaa.model.kinds import ResourceType
from kaa.model.topics import TopicPartition


def test_text_dictionaries_of_headers_and_names_as_keywords(
    bootstrap: str, topic_name: str
) -> None:
    async def run() -> None:
        producer = await client.Producer(bootstrap_servers=[bootstrap], linger_ms=1).start()
        await producer.send(topic_name, "grüß", key="k", headers={"a": "1", "b": None})
        await producer.send(topic_name, key="k")
        await producer.close()
        await producer.close()
        with pytest.raises(ClosedError, match="not running"):
            await producer.send(topic_name, b"x")
        with pytest.raises(ClosedError, match="make a new one"):
            await producer.start()
        consumer = await client.Consumer(
            {"bootstrap.servers": bootstrap, "auto.offset.reset": "smallest"}, max_poll_records=1
        ).start()
        consumer.assign([TopicPartition(topic_name, 0)])
        polled = await consumer.poll(timeout_ms=10_000)
        ((first,),) = polled.values()
        second = await anext(aiter(consumer))
        await consumer.close()
        assert (first.key, first.value) == (b"k", "grüß".encode())
        assert first.headers == (("a", b"1"), ("b", None))
        assert type(first) is type(second) is client.ConsumerRecord
        assert (first.topic, first.offset, second.offset) == (topic_name, 0, 1)
        assert second.value is None

    asyncio.run(run())


def test_serializers_both_ways(bootstrap: str, topic_name: str) -> None:
    seen: list[Any] = []

    def dumps(value: object, ctx: client.SerializationContext) -> str:
        seen.append((ctx.topic, ctx.field))
        return json.dumps(value)

    async def run() -> None:
        servers = {"bootstrap.servers": bootstrap}
        writing = {"key.serializer": StringSerializer(), "value.serializer": dumps}
        async with client.Producer({**servers, **writing}) as producer:
            await producer.send(topic_name, {"amount": 7}, key="ö")
            await producer.send(topic_name, None, key="ö")
        reading = {"key.deserializer": StringDeserializer(), "value.deserializer": json.loads}
        settings = {**servers, **reading, "auto.offset.reset": "earliest"}
        async with client.Consumer(settings) as consumer:
            consumer.assign([TopicPartition(topic_name, 0)])
            found = []
            async for record in consumer:
                found.append((record.key, record.value))
                if len(found) == 2:
                    break
        assert found == [("ö", {"amount": 7}), ("ö", None)]
        assert seen == [(topic_name, "value")]

    asyncio.run(run())


def test_what_has_no_bytes_is_refused(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        async with client.Producer({"bootstrap.servers": bootstrap}) as producer:
            with pytest.raises(SerializationError, match=r"json\.dumps, or set value\.serializer"):
                await producer.send(topic_name, {"amount": 7})
            with pytest.raises(SerializationError, match=r"key of type int .* key\.serializer"):
                await producer.send(topic_name, b"x", key=7)
        with (
            sync.Producer({"bootstrap.servers": bootstrap}) as other,
            pytest.raises(SerializationError, match=r"json\.dumps"),
        ):
            other.send(topic_name, {"amount": 7})

    asyncio.run(run())


def test_values_of_settings_may_be_numbers(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        admin = await client.Admin(bootstrap_servers=bootstrap).start()
        topic = client.NewTopic(topic_name, 1, 1, {"retention.ms": 1000, "preallocate": False})
        assert await admin.create_topics([topic]) == {topic_name: None}
        change = ConfigChange("cleanup.policy", ["compact", "delete"])
        await admin.alter_configs(ResourceType.TOPIC, topic_name, [change])
        (entry,) = await admin.describe_configs(ResourceType.TOPIC, topic_name, ["retention.ms"])
        assert entry.value == "1000"
        await admin.close()

    asyncio.run(run())


def test_polling_for_nothing_is_refused_as_in_java(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": topic_name}
        async with client.Consumer(settings) as consumer:
            with pytest.raises(NotSubscribedError, match=r"call subscribe\(\[topic\]\), or assign"):
                await consumer.poll(timeout_ms=0)
            consumer.assign([])
            with pytest.raises(NotSubscribedError):
                await consumer.poll()

    asyncio.run(run())


def test_without_asyncio_and_without_with(bootstrap: str, topic_name: str) -> None:
    producer = sync.Producer(bootstrap_servers=bootstrap).start()
    value = {"amount": 7}
    with pytest.raises(ClosedError, match="make a new one"):
        producer.start()
    assert producer.send(topic_name, json.dumps(value), key="k").result(20).offset == 0
    producer.close()
    producer.close()
    consumer = sync.Consumer(
        {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"},
        value_deserializer=json.loads,
    ).start()
    consumer.assign([TopicPartition(topic_name, 0)])
    record = next(iter(consumer))
    consumer.close()
    assert (record.key, record.value) == (b"k", value)
