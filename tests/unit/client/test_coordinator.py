from __future__ import annotations

import asyncio

import pytest

from kaa.client.cluster import Cluster
from kaa.client.connection import Connection
from kaa.client.coordinator import (
    CoordinatorType,
    ask_coordinator,
    ask_coordinators,
    coordinator_node,
)
from kaa.client.errors import KafkaError
from kaa.config.client import admin_values
from kaa.testing import Broker
from kaa.wire.errors import Errors

GROUP = CoordinatorType.GROUP


def cluster_of(broker: Broker) -> Cluster:
    return Cluster(admin_values({"bootstrap.servers": broker.bootstrap_servers}))


def test_coordinator_is_found_once_and_has_a_connection_of_its_own() -> None:
    async def run(broker: Broker) -> None:
        seen = broker.on("FindCoordinator").observe()

        async def ask(connection: Connection) -> str | KafkaError:
            return connection.address

        async with cluster_of(broker) as cluster:
            address = await ask_coordinator(cluster, GROUP, "g", "test", 10_000, ask)
            assert address == broker.bootstrap_servers
            asked = len(seen.requests)
            node_id = await cluster.coordinators.node(GROUP, "g")
            apart = await cluster.coordinators.connection(GROUP, "g")
            assert len(seen.requests) == asked
            assert apart is not await cluster.connection(node_id)
            assert apart is await cluster.connection(coordinator_node(node_id))
            # Nobody else sends after a JoinGroup that may wait for minutes.
            assert await cluster.any_connection() is not apart
            cluster.coordinators.forget(GROUP, "g")
            await cluster.coordinators.node(GROUP, "g")
            assert len(seen.requests) == asked + 1

    with Broker() as broker:
        asyncio.run(run(broker))


def test_keys_whose_coordinator_moved_are_asked_for_again() -> None:
    async def run(broker: Broker) -> None:
        calls: list[list[str]] = []

        async def ask(connection: Connection, keys: list[str]) -> dict[str, str | KafkaError]:
            calls.append(keys)
            answers: dict[str, str | KafkaError] = {key: key.upper() for key in keys}
            if len(calls) == 1:
                answers["b"] = KafkaError(Errors.NOT_COORDINATOR, "b")
            return answers

        async with cluster_of(broker) as cluster:
            found = await ask_coordinators(cluster, GROUP, ["a", "b"], "test", 10_000, ask)
            assert found == {"a": "A", "b": "B"}
            assert calls[-1] == ["b"]

    with Broker() as broker:
        asyncio.run(run(broker))


def test_refusals_are_told_by_key() -> None:
    async def run(broker: Broker) -> None:
        async def ask(connection: Connection, keys: list[str]) -> dict[str, str | KafkaError]:
            return dict.fromkeys(keys, "fine")

        async with cluster_of(broker) as cluster:
            broker.on("FindCoordinator").fail(Errors.GROUP_AUTHORIZATION_FAILED)
            found = await ask_coordinators(cluster, GROUP, ["a"], "test", 10_000, ask)
            refused = found["a"]
            assert isinstance(refused, KafkaError)
            assert refused.error is Errors.GROUP_AUTHORIZATION_FAILED
            with pytest.raises(KafkaError, match="ask for an ACL"):
                await cluster.coordinators.node(GROUP, "a")

    with Broker() as broker:
        asyncio.run(run(broker))
