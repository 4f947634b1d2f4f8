from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kaa.client.admin import (
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigSource,
    NewTopic,
    ResourceType,
)
from kaa.client.errors import KafkaError
from kaa.client.metadata import Topic, TopicPartition
from kaa.client.offsets import EARLIEST, LATEST
from kaa.client.producer import Producer
from kaa.wire.errors import Errors
from kaa.wire.registry import ApiKey


async def until(ask: Callable[[], Awaitable[bool]], *, expected: bool = True) -> None:
    """Brokers learn of a change after the controller has answered; waits for it."""
    for _ in range(200):
        if await ask() is expected:
            return
        await asyncio.sleep(0.05)
    pytest.fail("the change did not arrive")


async def is_listed(admin: Admin, name: str) -> bool:
    return name in {topic.name for topic in await admin.list_topics()}


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


async def is_default(admin: Admin, topic: str, name: str) -> bool:
    (entry,) = await admin.describe_configs(ResourceType.TOPIC, topic, [name])
    return entry.source is ConfigSource.DEFAULT_CONFIG


def test_settings(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            await admin.create_topics([NewTopic(topic_name, 1, 1)])
            await until(lambda: is_listed(admin, topic_name))
            topic = (ResourceType.TOPIC, topic_name)
            await admin.alter_configs(
                *topic,
                [
                    ConfigChange("retention.ms", "5000"),
                    ConfigChange("cleanup.policy", "compact", ConfigOperation.APPEND),
                ],
            )
            await until(lambda: is_default(admin, topic_name, "retention.ms"), expected=False)
            names = ["retention.ms", "cleanup.policy"]
            entries = {one.name: one for one in await admin.describe_configs(*topic, names)}
            assert entries["retention.ms"].value == "5000"
            assert entries["retention.ms"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
            assert entries["cleanup.policy"].value == "delete,compact"
            change = ConfigChange("retention.ms", None, ConfigOperation.DELETE)
            await admin.alter_configs(*topic, [change])
            await until(lambda: is_default(admin, topic_name, "retention.ms"))
            (entry,) = await admin.describe_configs(*topic, ["retention.ms"], documentation=True)
            assert entry.source is ConfigSource.DEFAULT_CONFIG
            assert entry.documentation
            with pytest.raises(KafkaError, match="INVALID_CONFIG"):
                await admin.alter_configs(*topic, [ConfigChange("retention.ms", "soon")])
            cluster = await admin.describe_cluster()
            broker = str(cluster.brokers[0].node_id)
            settings = await admin.describe_configs(ResourceType.BROKER, broker)
            assert "log.dirs" in {one.name for one in settings}

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


async def is_held(admin: Admin, partition: TopicPartition) -> bool:
    dirs = await admin.describe_log_dirs()
    return partition in {replica.partition for one in dirs for replica in one.replicas}


def test_cluster(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            cluster = await admin.describe_cluster()
            assert [broker.address for broker in cluster.brokers] == [bootstrap]
            await admin.create_topics([NewTopic(topic_name, 1, 1)])
            await until(lambda: is_held(admin, TopicPartition(topic_name, 0)))
            versions = await admin.api_versions()
            assert versions[cluster.brokers[0].node_id][ApiKey.FETCH][1] >= 17

    asyncio.run(run())
