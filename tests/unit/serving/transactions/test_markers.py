"""What `k27_write_txn_markers` does not show: markers that have to wait for replicas."""

from __future__ import annotations

import asyncio

from kaa.wire.errors import Errors
from kaa.wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.unit.handlers.support import Node

REQUEST = WriteTxnMarkersRequest(
    markers=[
        WritableTxnMarker(
            producer_id=1,
            producer_epoch=0,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
            coordinator_epoch=0,
        )
    ]
)


def error_of(response: WriteTxnMarkersResponse) -> Errors:
    return Errors.of(response.markers[0].topics[0].partitions[0].error_code)


def slow_replica(node: Node) -> None:
    """Another replica is in sync, and fetches nothing."""
    node.create_topic("t")
    partition = node.partition("t")
    partition.update(partition.image._replace(replicas=(1, 2), isr=(1, 2), partition_epoch=9))


def test_a_marker_counts_when_it_is_replicated() -> None:
    with Node() as node:
        slow_replica(node)
        partition = node.partition("t")

        async def story() -> None:
            task = asyncio.get_running_loop().create_task(node.services.markers.write(REQUEST))
            await asyncio.sleep(0.01)
            assert not task.done()
            partition.replica_fetched(2, 1)
            assert error_of(await task) is Errors.NONE

        node.run(story())


def test_time_is_up() -> None:
    with Node("request.timeout.ms=20") as node:
        slow_replica(node)
        assert error_of(node.run(node.services.markers.write(REQUEST))) is (
            Errors.REQUEST_TIMED_OUT
        )


def test_leadership_is_lost_meanwhile() -> None:
    with Node() as node:
        slow_replica(node)
        partition = node.partition("t")

        async def story() -> None:
            task = asyncio.get_running_loop().create_task(node.services.markers.write(REQUEST))
            await asyncio.sleep(0)
            partition.stop_leading()
            assert error_of(await task) is Errors.NOT_LEADER_OR_FOLLOWER

        node.run(story())


def test_too_few_replicas() -> None:
    with Node() as node:
        node.create_topic("t", min_insync_replicas="2")
        partition = node.partition("t")
        partition.update(partition.image._replace(replicas=(1, 2), isr=(1,), partition_epoch=9))
        assert error_of(node.run(node.services.markers.write(REQUEST))) is (
            Errors.NOT_ENOUGH_REPLICAS
        )
