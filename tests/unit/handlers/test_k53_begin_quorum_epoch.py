from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k53_begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    LeaderEndpoint,
    NodeEndpoint,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from tests.unit.handlers.support import CLUSTER_ID, NODE_ID, Node

LEADER = NodeEndpoint(node_id=NODE_ID, host="127.0.0.1", port=9093)


def request(epoch: int, cluster_id: str = CLUSTER_ID) -> BeginQuorumEpochRequest:
    partition = RequestPartitionData(partition_index=0, leader_id=7, leader_epoch=epoch)
    return BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=NODE_ID,
        topics=[RequestTopicData(topic_name="__cluster_metadata", partitions=[partition])],
        leader_endpoints=[LeaderEndpoint(name="CONTROLLER", host="seven", port=1)],
    )


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("older", "error"), [(1, Errors.FENCED_LEADER_EPOCH), (0, Errors.INVALID_REQUEST)]
)
def test_nobody_else_leads_this_epoch(node: Node, version: int, older: int, error: Errors) -> None:
    epoch = node.services.quorum.machine.epoch
    response = node.ask(request(epoch - older), version, listener="CONTROLLER")
    ((partition,),) = [topic.partitions for topic in response.topics]
    assert partition == ResponsePartitionData(
        partition_index=0, error_code=error, leader_id=NODE_ID, leader_epoch=epoch
    )
    assert response.node_endpoints == ([LEADER] if version >= 1 else [])
    assert node.services.quorum.machine.is_leader


def test_another_cluster(node: Node) -> None:
    response = node.ask(request(1, "other"), listener="CONTROLLER")
    assert (response.error_code, response.topics) == (Errors.INCONSISTENT_CLUSTER_ID, [])
