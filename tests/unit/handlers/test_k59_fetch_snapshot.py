from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k59_fetch_snapshot import (
    FetchSnapshotRequest,
    LeaderIdAndEpoch,
    NodeEndpoint,
    RequestPartitionSnapshot,
    RequestTopicSnapshot,
    SnapshotId,
)
from tests.unit.handlers.support import NODE_ID, Node

if TYPE_CHECKING:
    from kaa.quorum.log_view import OffsetAndEpoch

LEADER = NodeEndpoint(node_id=NODE_ID, host="127.0.0.1", port=9093)


def request(
    node: Node, end_offset: int, epoch: int, position: int = 0, topic: str = "__cluster_metadata"
) -> FetchSnapshotRequest:
    partition = RequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=node.services.quorum.machine.epoch,
        snapshot_id=SnapshotId(end_offset=end_offset, epoch=epoch),
        position=position,
    )
    return FetchSnapshotRequest(
        replica_id=7,
        max_bytes=50,
        topics=[RequestTopicSnapshot(name=topic, partitions=[partition])],
    )


def take_snapshot(node: Node) -> OffsetAndEpoch:
    node.run(node.snapshot())
    found = node.services.quorum.log.latest_snapshot_id()
    assert found is not None
    return found


@pytest.mark.parametrize("version", [0, 1])
def test_a_piece(node: Node, version: int) -> None:
    found = take_snapshot(node)
    wanted = request(node, found.offset, found.epoch, position=3)
    response = node.ask(wanted, version, listener="CONTROLLER")
    assert response.error_code == Errors.NONE
    ((partition,),) = [topic.partitions for topic in response.topics]
    assert partition.error_code == Errors.NONE
    assert partition.snapshot_id == SnapshotId(end_offset=found.offset, epoch=found.epoch)
    assert partition.position == 3
    assert 0 < len(partition.unaligned_records) <= 50 < partition.size
    assert partition.current_leader == LeaderIdAndEpoch(
        leader_id=NODE_ID, leader_epoch=node.services.quorum.machine.epoch
    )
    assert response.node_endpoints == ([LEADER] if version >= 1 else [])


def test_refusals(node: Node) -> None:
    absent = node.ask(request(node, 99_999, 1), listener="CONTROLLER")
    assert absent.topics[0].partitions[0].error_code == Errors.SNAPSHOT_NOT_FOUND
    found = take_snapshot(node)
    beyond = node.ask(request(node, found.offset, found.epoch, 10**6), listener="CONTROLLER")
    assert beyond.topics[0].partitions[0].error_code == Errors.POSITION_OUT_OF_RANGE
    negative = request(node, found.offset, found.epoch)
    negative.max_bytes = -1
    illegal = node.ask(negative, listener="CONTROLLER")
    assert illegal.topics[0].partitions[0].error_code == Errors.INVALID_REQUEST
    other = node.ask(request(node, 1, 1, topic="t"), listener="CONTROLLER")
    assert (other.error_code, other.topics) == (Errors.INVALID_REQUEST, [])
