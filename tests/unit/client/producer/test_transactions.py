"""Transactions of Kaa's producer, under both transaction versions, as readers see them."""

from __future__ import annotations

import asyncio

import pytest

from kaa.client.admin.admin import Admin, NewTopic
from kaa.client.connection import Connection
from kaa.client.consumer.consumer import Consumer
from kaa.client.consumer.offsets import LATEST, READ_COMMITTED, READ_UNCOMMITTED
from kaa.client.errors import ClientError, CommitFailedError, KafkaError, ProducerFencedError
from kaa.client.group.membership import GroupMetadata
from kaa.client.producer.producer import Producer
from kaa.client.sync import Producer as SyncProducer
from kaa.model.topics import TopicPartition
from kaa.testing import Broker
from kaa.wire.errors import Errors
from tests.support.pace import PATIENCE_SECONDS
from tests.unit.client.waiting import until


@pytest.fixture(params=[2, 0])
def servers(request: pytest.FixtureRequest, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A cluster; under 0 the client takes it for one that has not agreed on newer transactions."""
    if request.param == 0:
        monkeypatch.setattr(Connection, "finalized_features", lambda _: {})
    return bootstrap


def producer_of(servers: str, transactional_id: str, **more: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": transactional_id,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )


async def create(servers: str, topic: str, partitions: int = 1) -> None:
    async with Admin({"bootstrap.servers": servers}) as admin:
        assert await admin.create_topics([NewTopic(topic, partitions, 1)]) == {topic: None}


async def read(servers: str, topic: str, isolation: str = "read_committed") -> list[bytes | None]:
    """All that a reader sees of the first partition, once no transaction in it is open."""
    partition = TopicPartition(topic, 0)
    async with Admin({"bootstrap.servers": servers}) as admin:

        async def is_settled() -> bool:
            # The end of a transaction is answered before its markers are written.
            ends = [
                (await admin.list_offsets({partition: LATEST}, level))[partition].offset
                for level in (READ_UNCOMMITTED, READ_COMMITTED)
            ]
            return ends[0] == ends[1]

        await until(is_settled)
    settings = {
        "bootstrap.servers": servers,
        "isolation.level": isolation,
        "auto.offset.reset": "earliest",
    }
    values: list[bytes | None] = []
    async with Consumer(settings) as consumer:
        consumer.assign([partition])
        (end,) = (await consumer.end_offsets([partition])).values()
        async with asyncio.timeout(60):
            while await consumer.position(partition) < end:
                for records in (await consumer.poll(100)).values():
                    values += [record.value for record in records]
    return values


def test_all_or_nothing(servers: str, topic_name: str) -> None:
    async def run() -> None:
        await create(servers, topic_name)
        async with producer_of(servers, topic_name) as producer:
            await producer.init_transactions()
            for number in range(6):
                producer.begin_transaction()
                await producer.send(topic_name, b"%d" % number, partition=0)
                if number % 3 == 1:
                    await producer.flush()
                    await producer.abort_transaction()
                elif number % 3 == 2:
                    # Nothing of it has left yet.
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
            async with producer.transaction():
                await producer.send(topic_name, b"block", partition=0)
            with pytest.raises(ValueError, match="negative"):
                async with producer.transaction():
                    await producer.send(topic_name, b"lost", partition=0, timestamp_ms=-1)
            # A transaction without records needs no coordinator.
            async with producer.transaction():
                pass
        assert await read(servers, topic_name) == [b"0", b"3", b"block"]
        everything = await read(servers, topic_name, "read_uncommitted")
        assert everything == [b"0", b"1", b"3", b"4", b"block"]

    asyncio.run(run())


def test_end_of_the_block_aborts_what_is_open(servers: str, topic_name: str) -> None:
    async def run() -> None:
        await create(servers, topic_name)
        async with producer_of(servers, topic_name) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await (await producer.send(topic_name, b"open", partition=0))
        async with Admin({"bootstrap.servers": servers}) as admin:
            state = (await admin.describe_transaction(topic_name)).state
            assert state in {"PrepareAbort", "CompleteAbort"}
        assert await read(servers, topic_name) == []

    asyncio.run(run())


def test_offsets_are_committed_with_the_records(servers: str, topic_name: str) -> None:
    """Consume, transform, produce: the transaction carries both."""

    async def run() -> None:
        source, target = f"{topic_name}-in", f"{topic_name}-out"
        await create(servers, source)
        await create(servers, target)
        partition = TopicPartition(source, 0)
        async with Producer({"bootstrap.servers": servers}) as producer:
            for number in range(4):
                await producer.send(source, b"%d" % number, partition=0)
        settings = {
            "bootstrap.servers": servers,
            "group.id": topic_name,
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
        }
        async with Consumer(settings) as consumer, producer_of(servers, topic_name) as producer:
            consumer.subscribe([source])
            await producer.init_transactions()
            for commits in (False, True):
                async with asyncio.timeout(60):
                    while not await consumer.poll(100, max_records=2):
                        pass
                producer.begin_transaction()
                await producer.send(target, b"done", partition=0)
                offsets = {partition: await consumer.position(partition)}
                await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
                if commits:
                    await producer.commit_transaction()
                    # Markers are written after the answer; who asks waits for them.
                    found = await consumer.committed([partition])
                    assert found[partition].offset == 2
                else:
                    await producer.abort_transaction()
                    assert await consumer.committed([partition]) == {}
                    consumer.seek(partition, 0)
        assert await read(servers, target) == [b"done"]

    asyncio.run(run())


def test_second_producer_fences_the_first(servers: str, topic_name: str) -> None:
    async def run() -> None:
        await create(servers, topic_name)
        async with producer_of(servers, topic_name) as first:
            await first.init_transactions()
            first.begin_transaction()
            await (await first.send(topic_name, b"old", partition=0))
            async with producer_of(servers, topic_name) as second:
                await second.init_transactions()
                async with second.transaction():
                    await second.send(topic_name, b"new", partition=0)
            with pytest.raises(ProducerFencedError, match="make a new producer"):
                await first.commit_transaction()
            # From now on it says so to everything.
            with pytest.raises(ProducerFencedError):
                first.begin_transaction()
            with pytest.raises(ProducerFencedError):
                await first.send(topic_name, b"x")
        assert await read(servers, topic_name) == [b"new"]

    asyncio.run(run())


def test_record_that_is_refused_makes_an_abort_necessary(servers: str, topic_name: str) -> None:
    async def run() -> None:
        await create(servers, topic_name)
        async with Admin({"bootstrap.servers": servers}) as admin:
            small = NewTopic(f"{topic_name}-small", 1, 1, {"max.message.bytes": "200"})
            await admin.create_topics([small])
        async with producer_of(servers, topic_name) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send(topic_name, b"a", partition=0)
            delivery = await producer.send(small.name, b"x" * 1000, partition=0)
            with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
                await delivery
            with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
                await producer.commit_transaction()
            with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
                await producer.send(topic_name, b"b")
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(topic_name, b"c", partition=0)
                await producer.send(small.name, b"c", partition=0)
        assert await read(servers, topic_name) == [b"c"]
        assert await read(servers, small.name) == [b"c"]

    asyncio.run(run())


def test_steps_out_of_order(servers: str, topic_name: str) -> None:
    async def run() -> None:
        async with Producer({"bootstrap.servers": servers}) as plain:
            with pytest.raises(ClientError, match=r"need a transactional\.id"):
                plain.begin_transaction()
        async with producer_of(servers, topic_name) as producer:
            with pytest.raises(KafkaError, match="not initialised"):
                producer.begin_transaction()
            await producer.init_transactions()
            with pytest.raises(KafkaError, match="between transactions"):
                await producer.init_transactions()
            with pytest.raises(KafkaError, match="begin a transaction before"):
                await producer.send(topic_name, b"x")
            producer.begin_transaction()
            with pytest.raises(KafkaError, match="in a transaction"):
                producer.begin_transaction()
            group = GroupMetadata("no-such-group", 3, "nobody")
            with pytest.raises(CommitFailedError) as refused:
                await producer.send_offsets_to_transaction(
                    {TopicPartition(topic_name, 0): 1}, group
                )
            assert refused.value.error in {Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION}
            with pytest.raises(CommitFailedError):
                await producer.commit_transaction()
            await producer.abort_transaction()
        async with producer_of(servers, topic_name, transaction_timeout_ms="99999999") as producer:
            with pytest.raises(KafkaError, match=r"lower transaction\.timeout\.ms"):
                await producer.init_transactions()

    asyncio.run(run())


def test_script_without_asyncio(servers: str, topic_name: str) -> None:
    asyncio.run(create(servers, topic_name))
    settings = {"bootstrap.servers": servers, "transactional.id": topic_name}
    with SyncProducer(settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic_name, b"gone", partition=0)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic_name, b"kept", partition=0)
        group = GroupMetadata(topic_name)
        producer.send_offsets_to_transaction({TopicPartition(topic_name, 0): 5}, group)
        producer.commit_transaction()
    assert asyncio.run(read(servers, topic_name)) == [b"kept"]


def test_a_coordinator_that_does_not_answer_does_not_hold_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The abort of what is open would wait for max.block.ms otherwise."""
    monkeypatch.setattr("kaa.client.producer.producer.CLIENT_CLOSE_MS_MAX", 100)

    async def run(broker: Broker) -> None:
        async with producer_of(broker.bootstrap_servers, "t") as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await (await producer.send("t", b"v"))
            broker.on("EndTxn").delay(PATIENCE_SECONDS)
            async with asyncio.timeout(PATIENCE_SECONDS / 6):
                await producer.close()

    with Broker() as broker:
        broker.topic("t")
        asyncio.run(run(broker))
