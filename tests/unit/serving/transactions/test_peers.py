"""What brokers ask of each other, over a connection to a running node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kaa.client.connection import ConnectionSettings
from kaa.client.peer import Peer
from kaa.controller.port import ControllerPort, ControllerRequestContext
from kaa.controller.refusals import error_response
from kaa.model.nodes import HostPort
from kaa.model.pieces import finish
from kaa.serving.producer_ids import ProducerIds
from kaa.serving.transactions.peers import RemoteBroker
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


def remote_broker(port: int) -> RemoteBroker:
    return RemoteBroker(
        Peer(HostPort(LOOPBACK, port), ConnectionSettings(setup_timeout_ms=1_000), Random(1))
    )


def check(markers: Any, addition: Any) -> None:
    (partition,) = markers.markers[0].topics[0].partitions
    assert partition.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert addition == {("nowhere", 0): Errors.UNKNOWN_TOPIC_OR_PARTITION}


def test_this_broker() -> None:
    with Node() as node:
        services = node.services
        written = node.run(services.markers.send(services.node_id, MARKERS))
        check(written, node.run(services.additions.add(ADDITION)))


def test_another_broker(tmp_path: Path) -> None:
    async def story(port: int) -> None:
        remote = remote_broker(port)
        try:
            check(await remote.ask(MARKERS), await remote.add_partitions(ADDITION))
        finally:
            remote.peer.close()

    with broker_thread(tmp_path / "data") as node:
        asyncio.run(story(int(node.bootstrap_servers.rpartition(":")[2])))


def test_a_broker_that_is_not_there() -> None:
    async def story() -> None:
        remote = remote_broker(free_port())
        with pytest.raises(ConnectionError):
            await remote.ask(MARKERS)
        refused = {("nowhere", 0): Errors.NETWORK_EXCEPTION}
        assert await remote.add_partitions(ADDITION) == refused

    asyncio.run(story())


def test_brokers_are_found_in_the_metadata() -> None:
    with Node() as node:
        brokers = node.services.brokers
        with pytest.raises(ConnectionError):
            brokers.at(7)
        known = node.services.image.brokers[1]
        node.services.image.brokers[7] = known._replace(id=7)
        assert brokers.at(7) is brokers.at(7)
        node.create_topic("t")
        found: Callable[[tuple[str, int]], int | None] = brokers.leader
        assert [found(name) for name in (("t", 0), ("t", 1), ("u", 0))] == [1, None, None]
        brokers.close()


def test_a_controller_that_is_not_there() -> None:
    class Nobody(ControllerPort):
        async def submit(self, request: Any, context: ControllerRequestContext) -> Any:
            return finish(error_response(request, 0, Errors.REQUEST_TIMED_OUT, None))

    async def story() -> None:
        ids = ProducerIds(Nobody(), 1, lambda: 1)
        assert await ids.next_id() is Errors.COORDINATOR_LOAD_IN_PROGRESS

    asyncio.run(story())
