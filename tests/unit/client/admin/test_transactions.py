"""Transactions of another client as an operator sees and ends them."""

from __future__ import annotations

import asyncio
import time

import aiokafka
import pytest

from kaa.client.admin.admin import Admin
from kaa.client.consumer.offsets import LATEST, READ_COMMITTED
from kaa.client.errors import KafkaError
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors

HOUR_MS = 3_600_000


def test_open_transaction(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        servers = bootstrap
        partition = TopicPartition(topic_name, 0)
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, transactional_id=topic_name)
        await producer.start()
        try:
            async with Admin({"bootstrap.servers": servers}) as admin:
                await producer.begin_transaction()
                await producer.send_and_wait(topic_name, b"x", partition=0)
                listed = {one.transactional_id: one for one in await admin.list_transactions()}
                assert listed[topic_name].state == "Ongoing"
                young = await admin.list_transactions(running_longer_than_ms=HOUR_MS)
                assert topic_name not in {one.transactional_id for one in young}
                some = await admin.list_transactions(pattern=topic_name + ".*", states=["Ongoing"])
                assert [one.transactional_id for one in some] == [topic_name]
                described = await admin.describe_transaction(topic_name)
                assert described.partitions == (partition,)
                assert described.timeout_ms == 60_000
                states = (await admin.describe_producers([partition]))[partition]
                assert not isinstance(states, KafkaError)
                (state,) = states
                assert state.producer_id == described.producer_id
                assert state.transaction_start_offset == 0
                # Its coordinator knows of it, so it does not hang however old it is.
                now_ms = time.time_ns() // 1_000_000 + HOUR_MS
                assert await admin.find_hanging_transactions(now_ms, partitions=[partition]) == []
                await admin.abort_transaction(
                    partition, state.producer_id, state.producer_epoch, state.coordinator_epoch
                )
                ends = await admin.list_offsets({partition: LATEST}, READ_COMMITTED)
                assert ends[partition].offset == 2
                assert await admin.fence_producers([topic_name]) == {topic_name: None}
        finally:
            with pytest.raises(aiokafka.errors.KafkaError):
                await producer.send_and_wait(topic_name, b"y", partition=0)
            await producer.stop()

    asyncio.run(run())


def test_what_is_unknown_or_too_new(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            with pytest.raises(KafkaError) as refused:
                await admin.describe_transaction(topic_name)
            assert refused.value.error is Errors.TRANSACTIONAL_ID_NOT_FOUND
            with pytest.raises(KafkaError, match="no transaction is ever in a state named Odd"):
                await admin.list_transactions(states=["Odd"])
            identity = await admin.init_producer_id(topic_name)
            assert identity.producer_epoch == 0
            again = await admin.init_producer_id(topic_name)
            assert again.producer_epoch == 1

    asyncio.run(run())
