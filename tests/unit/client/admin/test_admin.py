from __future__ import annotations

import asyncio

import pytest

from kaa.client.admin.admin import Admin, NewTopic
from kaa.client.consumer.offsets import EARLIEST, LATEST
from kaa.client.errors import KafkaError
from kaa.client.metadata import Topic
from kaa.client.producer.producer import Producer
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from tests.unit.client.waiting import is_listed, until


async def has_partitions(admin: Admin, name: str, expected: list[int]) -> bool:
    topic = (await admin.describe_topics([name]))[name]
    return isinstance(topic, Topic) and [one.partition for one in topic.partitions] == expected


def test_life_of_a_topic(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            new = NewTopic(topic_name, 2, 1, {"retention.ms": "1000"})
            assert await admin.create_topics([new], validate_only=True) == {topic_name: None}
            assert await admin.create_topics([new]) == {topic_name: None}
            refused = (await admin.create_topics([new]))[topic_name]
            assert refused is not None
            assert refused.error is Errors.TOPIC_ALREADY_EXISTS
            await until(lambda: is_listed(admin, topic_name))
            assert await admin.create_partitions({topic_name: 3}) == {topic_name: None}
            refused = (await admin.create_partitions({topic_name: 1}))[topic_name]
            assert refused is not None
            assert refused.error is Errors.INVALID_PARTITIONS
            await until(lambda: has_partitions(admin, topic_name, [0, 1, 2]))
            absent = (await admin.describe_topics(["absent"]))["absent"]
            assert isinstance(absent, KafkaError)
            assert absent.error is Errors.UNKNOWN_TOPIC_OR_PARTITION
            assert await admin.delete_topics([topic_name]) == {topic_name: None}
            await until(lambda: is_listed(admin, topic_name), expected=False)
            refused = (await admin.delete_topics([topic_name]))[topic_name]
            assert refused is not None
            assert refused.error is Errors.UNKNOWN_TOPIC_OR_PARTITION

    asyncio.run(run())


def test_offsets_and_records(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        partition = TopicPartition(topic_name, 0)
        async with Producer({"bootstrap.servers": bootstrap}) as producer:
            for _ in range(10):
                await producer.send(topic_name, b"x", partition=0)
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            assert await admin.delete_records({partition: 4}) == {partition: 4}
            assert (await admin.list_offsets({partition: EARLIEST}))[partition].offset == 4
            assert (await admin.list_offsets({partition: LATEST}))[partition].offset == 10
            with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
                await admin.delete_records({partition: 11})

    asyncio.run(run())
