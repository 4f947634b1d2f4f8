"""What `k27_write_txn_markers` does not show: markers that have to wait for replicas."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from kaa.records.build import BatchBuilder
from kaa.wire.errors import Errors
from kaa.wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.support.pace import PATIENCE_SECONDS
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


def test_a_marker_that_meets_a_write_leaves_the_loop_to_others() -> None:
    with Node() as node, ThreadPoolExecutor(1) as writer:
        node.create_topic("t")
        partition, gate = node.partition("t"), threading.Event()
        partition.online_log().directory.writer = writer
        writer.submit(gate.wait)
        builder = BatchBuilder()
        builder.append(0, b"k", b"v")

        async def story() -> None:
            loop = asyncio.get_running_loop()
            # The thread is busy, so that the write is under way until the gate is opened.
            written = loop.create_task(partition.append_later(builder.build(), now_ms=0))
            await asyncio.sleep(0)
            task = loop.create_task(node.services.markers.write(REQUEST))
            # Somebody who opens it in the end, should the marker wait for the write here.
            helper = threading.Timer(PATIENCE_SECONDS, gate.set)
            helper.start()
            await asyncio.sleep(0.01)
            was_waiting = not gate.is_set()
            gate.set()
            helper.cancel()
            assert error_of(await task) is Errors.NONE
            assert (await written).first_offset == 0
            assert was_waiting

        node.run(story())
        assert partition.online_log().log_end_offset == 2


def test_a_marker_with_group_commit_is_left_to_the_thread_of_the_directory() -> None:
    with Node() as node, ThreadPoolExecutor(1, "writer") as writer:
        node.create_topic("t")
        partition = node.partition("t")
        partition.online_log().directory.writer = writer
        log = partition.online_log()

        async def story() -> None:
            asked = asyncio.Event()
            partition.request_flush = lambda _: asked.set()
            task = asyncio.get_running_loop().create_task(node.services.markers.write(REQUEST))
            await asyncio.sleep(0)
            # It is not written on the loop.
            assert log.log_end_offset == 0
            await asked.wait()
            assert log.log_end_offset == 1
            partition.request_flush = None
            partition.advance_high_watermark()
            assert error_of(await task) is Errors.NONE

        node.run(story())
