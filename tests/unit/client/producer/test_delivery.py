from __future__ import annotations

import asyncio

import pytest

from kaa.client.producer.delivery import Delivery, RecordMetadata
from kaa.model.topics import TopicPartition

T0 = TopicPartition("t", 0)


def test_records_of_a_batch_have_consecutive_offsets() -> None:
    async def run() -> None:
        batch: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        first, second = Delivery(T0, batch, 0, 5), Delivery(T0, batch, 1, 6)
        assert not first.done()
        asyncio.get_running_loop().call_soon(batch.set_result, (10, -1))
        assert await first == RecordMetadata("t", 0, 10, 5)
        assert await second == RecordMetadata("t", 0, 11, 6)
        assert second.done()

    asyncio.run(run())


def test_broker_may_set_the_time_and_leave_out_the_offset() -> None:
    async def run() -> None:
        batch: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        batch.set_result((-1, 99))
        assert Delivery(T0, batch, 3, 5).result() == RecordMetadata("t", 0, -1, 99)

    asyncio.run(run())


def test_who_stops_waiting_does_not_stop_the_others() -> None:
    async def run() -> None:
        batch: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        delivery = Delivery(T0, batch, 0, 5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await delivery
        batch.set_result((1, -1))
        assert (await delivery).offset == 1

    asyncio.run(run())
