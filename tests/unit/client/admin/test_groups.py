from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiokafka
import pytest

from kaa.client.admin.admin import Admin, NewTopic
from kaa.client.admin.groups import CLASSIC
from kaa.client.errors import KafkaError
from kaa.client.group.offsets import OffsetAndMetadata
from kaa.client.producer.producer import Producer
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors


@asynccontextmanager
async def topic_with_records(bootstrap: str, name: str) -> AsyncIterator[Admin]:
    """An admin client, and a topic with two partitions of five records each."""
    settings = {"bootstrap.servers": bootstrap}
    async with Admin(settings) as admin:
        assert await admin.create_topics([NewTopic(name, 2, 1)]) == {name: None}
        async with Producer(settings) as producer:
            for number in range(10):
                await producer.send(name, b"x", partition=number % 2)
        yield admin


def test_offsets_of_a_group_without_members(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        first, second = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
        async with topic_with_records(bootstrap, topic_name) as admin:
            offsets = {first: OffsetAndMetadata(3, "a note"), second: OffsetAndMetadata(5)}
            done = await admin.alter_group_offsets(topic_name, offsets)
            assert done == {first: None, second: None}
            found = await admin.list_group_offsets(topic_name)
            assert found == offsets
            assert set(await admin.list_group_offsets(topic_name, [second])) == {second}
            lag = await admin.group_lag(topic_name)
            assert [(one.partition, one.committed, one.lag) for one in lag] == [
                (first, 3, 2),
                (second, 5, 0),
            ]
            listed = {one.group_id: one for one in await admin.list_groups(states=["Empty"])}
            assert listed[topic_name].state == "Empty"
            described = await admin.describe_group(topic_name)
            assert (described.state, described.members) == ("Empty", ())
            deleted = await admin.delete_group_offsets(topic_name, [second])
            assert deleted == {second: None}
            assert set(await admin.list_group_offsets(topic_name)) == {first}
            assert await admin.delete_groups([topic_name]) == {topic_name: None}
            with pytest.raises(KafkaError) as refused:
                await admin.describe_group(topic_name)
            assert refused.value.error is Errors.GROUP_ID_NOT_FOUND
            error = (await admin.delete_groups([topic_name]))[topic_name]
            assert error is not None
            assert error.error is Errors.GROUP_ID_NOT_FOUND
            assert error.hint is not None

    asyncio.run(run())


def test_group_with_a_member(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        async with topic_with_records(bootstrap, topic_name) as admin:
            member = aiokafka.AIOKafkaConsumer(
                topic_name,
                bootstrap_servers=bootstrap,
                group_id=topic_name,
                group_instance_id="static",
                auto_offset_reset="earliest",
            )
            await member.start()
            try:
                for _ in range(10):
                    await member.getone()
                await member.commit()
                described = await admin.describe_group(topic_name)
                assert described.group_type == CLASSIC
                assert described.state == "Stable"
                assert described.protocol_type == "consumer"
                assert described.coordinator is not None
                (one,) = described.members
                assert one.instance_id == "static"
                assert one.topics == (topic_name,)
                assert [partition.partition for partition in one.assignment] == [0, 1]
                lag = await admin.group_lag(topic_name)
                assert [(row.lag, row.member) for row in lag] == [(0, one), (0, one)]
                error = (await admin.delete_groups([topic_name]))[topic_name]
                assert error is not None
                assert error.error is Errors.NON_EMPTY_GROUP
                refused = await admin.delete_group_offsets(topic_name, one.assignment)
                assert {None if error is None else error.error for error in refused.values()} == {
                    Errors.GROUP_SUBSCRIBED_TO_TOPIC
                }
                with pytest.raises(KafkaError, match="stop its members"):
                    await admin.alter_group_offsets(
                        topic_name, {one.assignment[0]: OffsetAndMetadata(0)}
                    )
                gone = await admin.remove_members(topic_name, instance_ids=["static"])
                assert gone == {"static": None}
            finally:
                await member.stop()

    asyncio.run(run())


def test_names_that_are_no_groups(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            found = await admin.describe_groups([topic_name, topic_name + "2"])
            for answer in found.values():
                assert isinstance(answer, KafkaError)
                assert answer.error is Errors.GROUP_ID_NOT_FOUND
            assert await admin.list_group_offsets(topic_name) == {}
            with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
                await admin.group_lag(topic_name)
            assert await admin.alter_group_offsets(topic_name, {}) == {}

    asyncio.run(run())
