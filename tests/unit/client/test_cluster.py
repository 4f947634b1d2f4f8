from __future__ import annotations

import asyncio
from random import Random

import pytest

from kaa.client.cluster import Cluster
from kaa.client.errors import ClosedError, KafkaError, RequestTimeoutError, UnreachableError
from kaa.client.metadata import Broker
from kaa.config.client import admin_values
from kaa.wire.errors import Errors
from kaa.wire.messages.k16_list_groups import ListGroupsRequest
from tests.support.ports import LOOPBACK, free_port


def make(servers: str) -> Cluster:
    values = {"bootstrap.servers": servers, "retry.backoff.ms": "10"}
    return Cluster(admin_values(values), Random(1))


def test_bootstrap_passes_over_servers_that_are_down(bootstrap: str) -> None:
    async def run() -> None:
        async with make(f"{LOOPBACK}:{free_port()},{bootstrap}") as cluster:
            metadata = await cluster.fetch_metadata(None)
            assert [broker.address for broker in metadata.brokers.values()] == [bootstrap]
            (node_id,) = metadata.brokers
            assert await cluster.connection(node_id) is await cluster.connection(node_id)
            assert cluster.open_connection(node_id) is not None
        with pytest.raises(ClosedError):
            await cluster.connection(node_id)

    asyncio.run(run())


def test_connection_that_broke_is_opened_again(bootstrap: str) -> None:
    async def run() -> None:
        async with make(bootstrap) as cluster:
            await cluster.fetch_metadata([])
            (node_id,) = cluster.metadata.brokers
            first = await cluster.connection(node_id)
            first.close()
            assert await cluster.connection(node_id) is not first

    asyncio.run(run())


def test_another_broker_passes_on_what_a_lost_controller_cannot_take(bootstrap: str) -> None:
    async def run() -> None:
        async with make(bootstrap) as cluster:
            await cluster.fetch_metadata([])
            (node_id,) = cluster.metadata.brokers
            lost = Broker(node_id + 1, LOOPBACK, free_port())
            cluster.metadata.brokers[lost.node_id] = lost
            cluster.metadata.controller_id = lost.node_id
            assert (await cluster.controller_connection()).address == bootstrap

    asyncio.run(run())


def test_a_broker_that_was_not_known_yet_is_asked_for_again(bootstrap: str) -> None:
    async def run() -> None:
        async with make(bootstrap) as cluster:
            await cluster.fetch_metadata([])
            (node_id,) = cluster.metadata.brokers
            cluster.metadata.brokers.clear()
            answer = await cluster.call(ListGroupsRequest(), "groups", 60_000, node_id=node_id)
            assert answer.error_code == Errors.NONE

    asyncio.run(run())


def test_unknown_topic(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        async with make(bootstrap) as cluster:
            with pytest.raises(KafkaError) as refused:
                await cluster.topic(topic_name, 200)
            assert refused.value.error is Errors.UNKNOWN_TOPIC_OR_PARTITION
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                cluster.leader_or_raise(topic_name, 0)

    asyncio.run(run())


def test_repeating() -> None:
    async def run() -> None:
        cluster = make("localhost:1")
        attempts = 0

        async def third_time() -> str:
            nonlocal attempts
            attempts += 1
            if attempts < 3:
                raise KafkaError(Errors.NOT_CONTROLLER, "it")
            return "done"

        async def never() -> None:
            await asyncio.Event().wait()

        async def refused() -> None:
            raise KafkaError(Errors.INVALID_REQUEST, "it")

        async def fails_then_hangs() -> None:
            nonlocal attempts
            attempts += 1
            if attempts > 1:
                await never()
            raise KafkaError(Errors.NOT_CONTROLLER, "it")

        assert await cluster.repeat(third_time, "it", 5000) == "done"
        with pytest.raises(RequestTimeoutError, match="it: not done within 50 ms"):
            await cluster.repeat(never, "it", 50)
        attempts = 0
        with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
            await cluster.repeat(fails_then_hangs, "it", 100)
        with pytest.raises(KafkaError, match="INVALID_REQUEST"):
            await cluster.repeat(refused, "it", 5000)

    asyncio.run(run())


def test_nobody_listens() -> None:
    async def run() -> None:
        async with make(f"{LOOPBACK}:{free_port()}") as cluster:
            with pytest.raises(UnreachableError):
                await cluster.any_connection()

    asyncio.run(run())
