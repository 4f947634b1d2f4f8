"""Kaa's own share consumer against a running node."""

from __future__ import annotations

import asyncio

import pytest

from kaa.client import (
    AcknowledgeType,
    Admin,
    ConfigChange,
    NewTopic,
    Producer,
    ShareConsumer,
    ShareRecord,
    sync,
)
from kaa.client.admin.share import SharePosition
from kaa.client.errors import ClientError, KafkaError, SerializationError
from kaa.model.kinds import ResourceType
from kaa.model.topics import TopicPartition
from tests.support.broker_process import BrokerProcess

SECONDS_MAX = 60


@pytest.fixture
def bootstrap(quick_broker: BrokerProcess) -> str:
    """Of a node whose groups get their assignments soon."""
    return quick_broker.bootstrap_servers


async def prepare(bootstrap: str, topic: str, count: int, partitions: int = 2) -> None:
    """A topic with numbers, and a group of the same name that begins at its start."""
    async with Admin({"bootstrap.servers": bootstrap}) as admin:
        await admin.create_topics([NewTopic(topic, partitions)])
        change = ConfigChange("share.auto.offset.reset", "earliest")
        await admin.alter_configs(ResourceType.GROUP, topic, [change])
    await send(bootstrap, topic, range(count))


async def send(bootstrap: str, topic: str, numbers: range) -> None:
    async with Producer({"bootstrap.servers": bootstrap, "linger.ms": 0}) as producer:
        for number in numbers:
            await producer.send(topic, b"%d" % number, partition=number % 2)


def settings(bootstrap: str, group: str, **more: object) -> dict[str, object]:
    return {"bootstrap.servers": bootstrap, "group.id": group, **more}


async def take(consumer: ShareConsumer, count: int) -> list[ShareRecord]:
    found: list[ShareRecord] = []
    async with asyncio.timeout(SECONDS_MAX):
        while len(found) < count:
            found += await consumer.poll(1_000)
    return found


def test_every_record_comes_once_to_one_of_many(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        await prepare(bootstrap, topic, 60)
        found: list[ShareRecord] = []

        async def work(consumer: ShareConsumer) -> None:
            consumer.subscribe([topic])
            while len(found) < 60:
                for record in await consumer.poll(200):
                    found.append(record)
                    await asyncio.sleep(0)

        limits = {"max.poll.records": 5}
        async with asyncio.timeout(SECONDS_MAX):
            async with (
                ShareConsumer(settings(bootstrap, topic, **limits)) as first,
                ShareConsumer(settings(bootstrap, topic, **limits)) as second,
                asyncio.TaskGroup() as tasks,
            ):
                for consumer in (first, second):
                    tasks.create_task(work(consumer))
        assert sorted(int(record.value) for record in found) == list(range(60))
        assert {record.delivery_count for record in found} == {1}

    asyncio.run(run())


def test_what_is_said_of_records_counts(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        await prepare(bootstrap, topic, 6)
        told: list[tuple[TopicPartition, frozenset[int], KafkaError | None]] = []
        explicit = settings(bootstrap, topic, **{"share.acknowledgement.mode": "explicit"})
        async with ShareConsumer(explicit) as consumer:
            consumer.set_acknowledgement_commit_callback(lambda *outcome: told.append(outcome))
            consumer.subscribe([topic])
            records = await take(consumer, 6)
            with pytest.raises(ClientError, match="gave 6 records that were not acknowledged"):
                await consumer.poll(0)
            kinds = [AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT] * 2
            for record, kind in zip(records, kinds, strict=True):
                consumer.acknowledge(record, kind)
            with pytest.raises(ClientError, match="is not held"):
                consumer.acknowledge(records[0])
            assert set((await consumer.commit()).values()) == {None}
            assert sum(len(offsets) for _, offsets, _ in told) == 6
            again = await take(consumer, 2)
            assert {record.delivery_count for record in again} == {2}
            released = {
                record.value for record, kind in zip(records, kinds, strict=True) if kind == 2
            }
            assert {record.value for record in again} == released
            consumer.acknowledge(again[0], AcknowledgeType.RENEW)
            assert set((await consumer.commit()).values()) == {None}
            for record in again:
                consumer.acknowledge(record)
        assert consumer.lock_timeout_ms == 30_000

    asyncio.run(run())


def test_what_was_not_said_goes_to_others_at_once(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        await prepare(bootstrap, topic, 10)
        async with ShareConsumer(settings(bootstrap, topic)) as consumer:
            consumer.subscribe(topic)
            seen = 0
            async for _ in consumer:
                seen += 1
                if seen == 4:
                    break
        async with ShareConsumer(settings(bootstrap, topic)) as consumer:
            consumer.subscribe(topic)
            # Three were accepted when the next was asked for.
            rest = await take(consumer, 7)
            assert len(rest) == 7
            assert {record.delivery_count for record in rest} == {2}

    asyncio.run(run())


def test_scripts_without_asyncio(bootstrap: str, topic: str) -> None:
    asyncio.run(prepare(bootstrap, topic, 3))
    with sync.ShareConsumer(settings(bootstrap, topic)) as consumer:
        consumer.subscribe([topic])
        assert consumer.subscription == {topic}
        found = []
        for record in consumer:
            found.append(int(record.value))
            if len(found) == 3:
                break
        assert set(consumer.commit().values()) == {None}
    assert sorted(found) == [0, 1, 2]


def test_settings_that_the_broker_decides_are_refused() -> None:
    with pytest.raises(Exception, match=r"auto\.offset\.reset must not be set"):
        ShareConsumer(settings("localhost:1", "g", **{"auto.offset.reset": "earliest"}))
    with pytest.raises(Exception, match=r"group\.id must name the share group"):
        ShareConsumer({"bootstrap.servers": "localhost:1"})


def test_groups_are_described_moved_and_forgotten(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        await prepare(bootstrap, topic, 10)
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            async with ShareConsumer(settings(bootstrap, topic)) as consumer:
                consumer.subscribe(topic)
                await take(consumer, 10)
                described = await admin.describe_share_group(topic)
                assert (described.state, len(described.members)) == ("Stable", 1)
                assert described.members[0].member_id == consumer.member_id
                assert len(described.members[0].assignment) == 2
                with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
                    await admin.alter_share_group_offsets(topic, {TopicPartition(topic, 0): 0})
                await consumer.commit()
            both = [TopicPartition(topic, number) for number in (0, 1)]
            found = await admin.list_share_group_offsets(topic)
            assert {name: position.lag for name, position in found.items()} == dict.fromkeys(
                both, 0
            )
            moved = await admin.alter_share_group_offsets(topic, {both[0]: 2})
            assert moved == {both[0]: None}
            assert (await admin.list_share_group_offsets(topic))[both[0]] == SharePosition(2, 3)
            assert await admin.delete_share_group_offsets(topic, [topic]) == {topic: None}
            assert await admin.list_share_group_offsets(topic) == {}
            listed = await admin.list_groups(types=["share"])
            assert topic in {group.group_id for group in listed}
            assert await admin.delete_groups([topic]) == {topic: None}
            with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
                await admin.describe_share_group(topic)

    asyncio.run(run())


def test_a_loop_accepts_what_it_handed_out(bootstrap: str, topic: str) -> None:
    """Neither a commit within the loop nor the next poll speaks for records that nobody saw."""

    async def run() -> None:
        await prepare(bootstrap, topic, 12, partitions=2)
        seen: list[ShareRecord] = []
        async with asyncio.timeout(SECONDS_MAX):
            async with ShareConsumer(settings(bootstrap, topic)) as consumer:
                consumer.subscribe([topic])
                for count in (2, 4):
                    async for record in consumer:
                        seen.append(record)
                        await consumer.commit()
                        if len(seen) == count:
                            break
            async with ShareConsumer(settings(bootstrap, topic)) as consumer:
                consumer.subscribe([topic])
                seen += await take(consumer, 8)
        assert sorted(int(record.value) for record in seen) == list(range(12))

    asyncio.run(run())


def test_a_record_that_cannot_be_read_is_given_back_alone(bootstrap: str, topic: str) -> None:
    def pick(value: bytes) -> int:
        if value == b"4" and not failures:
            failures.append(value)
            raise ValueError("no four")
        return int(value)

    failures: list[bytes] = []

    async def run() -> None:
        await prepare(bootstrap, topic, 12, partitions=2)
        found: list[int] = []
        async with asyncio.timeout(SECONDS_MAX):
            given = settings(bootstrap, topic, **{"value.deserializer": pick})
            async with ShareConsumer(given) as consumer:
                consumer.subscribe([topic])
                while len(found) < 12:
                    try:
                        found += [record.value for record in await consumer.poll(1_000)]
                    except SerializationError:
                        assert failures
        assert sorted(found) == list(range(12))

    asyncio.run(run())
