"""The same questions to this broker, and to a running node over a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kaa.client.connection import ConnectionSettings
from kaa.serving.brokers import LocalBroker, RemoteBroker, RemoteController, RemoteNode
from kaa.serving.producer_ids import ProducerIds
from kaa.wire.errors import Errors
from kaa.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kaa.wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.broker_thread import broker_thread
from tests.support.ports import LOOPBACK, free_port
from tests.unit.handlers.support import Node

MARKERS = WriteTxnMarkersRequest(
    markers=[
        WritableTxnMarker(
            producer_id=1,
            producer_epoch=0,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(name="nowhere", partition_indexes=[0])],
            coordinator_epoch=0,
            transaction_version=2,
        )
    ]
)
ADDITION = AddPartitionsToTxnTransaction(
    transactional_id="id",
    producer_id=1,
    producer_epoch=0,
    verify_only=True,
    topics=[AddPartitionsToTxnTopic(name="nowhere", partitions=[0])],
)


def check(markers: Any, addition: Any) -> None:
    (partition,) = markers.markers[0].topics[0].partitions
    assert partition.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert addition == {("nowhere", 0): Errors.UNKNOWN_TOPIC_OR_PARTITION}


def test_this_broker() -> None:
    with Node() as node:
        local = LocalBroker(node.services)
        check(node.run(local.write_markers(MARKERS)), node.run(local.add_partitions(ADDITION)))
        assert isinstance(node.services.brokers.port(1), LocalBroker)


def test_another_broker(tmp_path: Path) -> None:
    async def story(port: int) -> None:
        remote = RemoteBroker(LOOPBACK, port, ConnectionSettings())
        try:
            check(await remote.write_markers(MARKERS), await remote.add_partitions(ADDITION))
        finally:
            remote.close()

    with broker_thread(tmp_path / "data") as node:
        asyncio.run(story(int(node.bootstrap_servers.rpartition(":")[2])))


def test_a_broker_that_is_not_there() -> None:
    async def story() -> None:
        settings = ConnectionSettings(setup_timeout_ms=1_000)
        remote = RemoteBroker(LOOPBACK, free_port(), settings)
        with pytest.raises(ConnectionError):
            await remote.write_markers(MARKERS)
        refused = {("nowhere", 0): Errors.NETWORK_EXCEPTION}
        assert await remote.add_partitions(ADDITION) == refused

    asyncio.run(story())


def test_brokers_are_found_in_the_metadata() -> None:
    with Node() as node:
        brokers = node.services.brokers
        with pytest.raises(ConnectionError):
            brokers.port(7)
        known = node.services.image.brokers[1]
        node.services.image.brokers[7] = known._replace(id=7)
        port = brokers.port(7)
        assert isinstance(port, RemoteBroker)
        assert brokers.port(7) is port
        node.create_topic("t")
        found: Callable[[tuple[str, int]], int | None] = brokers.leader
        assert [found(name) for name in (("t", 0), ("t", 1), ("u", 0))] == [1, None, None]
        brokers.close()


def test_producer_ids_come_from_a_controller_on_another_node(tmp_path: Path) -> None:
    async def story(port: int, broker_epoch: int) -> None:
        node = RemoteNode(LOOPBACK, port, ConnectionSettings())
        try:
            ids = ProducerIds(RemoteController(node), 1, lambda: broker_epoch)
            assert [await ids.next_id() for _ in range(3)] == [0, 1, 2]
        finally:
            node.close()

    with broker_thread(tmp_path / "data") as running:
        endpoint = running.broker.config.listeners.controller[0]
        bound = running.broker.listeners.bound(endpoint)
        asyncio.run(story(bound.port, running.broker._broker_epoch()))


def test_a_controller_that_is_not_there() -> None:
    async def story() -> None:
        settings = ConnectionSettings(setup_timeout_ms=1_000)
        controller = RemoteController(RemoteNode(LOOPBACK, free_port(), settings))
        ids = ProducerIds(controller, 1, lambda: 1)
        assert await ids.next_id() is Errors.COORDINATOR_LOAD_IN_PROGRESS

    asyncio.run(story())
