from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k54_end_quorum_epoch import (
    EndQuorumEpochRequest,
    NodeEndpoint,
    ReplicaInfo,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from tests.unit.handlers.support import NODE_ID, Node

LEADER = NodeEndpoint(node_id=NODE_ID, host="127.0.0.1", port=9093)


def request(epoch: int, topic: str = "__cluster_metadata") -> EndQuorumEpochRequest:
    partition = RequestPartitionData(
        partition_index=0,
        leader_id=7,
        leader_epoch=epoch,
        preferred_successors=[NODE_ID],
        preferred_candidates=[ReplicaInfo(candidate_id=NODE_ID)],
    )
    return EndQuorumEpochRequest(
        topics=[RequestTopicData(topic_name=topic, partitions=[partition])]
    )


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("older", "error"), [(1, Errors.FENCED_LEADER_EPOCH), (0, Errors.INVALID_REQUEST)]
)
def test_nobody_else_ends_this_epoch(node: Node, version: int, older: int, error: Errors) -> None:
    epoch = node.services.quorum.machine.epoch
    response = node.ask(request(epoch - older), version, listener="CONTROLLER")
    ((partition,),) = [topic.partitions for topic in response.topics]
    assert partition == ResponsePartitionData(
        partition_index=0, error_code=error, leader_id=NODE_ID, leader_epoch=epoch
    )
    assert response.node_endpoints == ([LEADER] if version >= 1 else [])


def test_another_topic(node: Node) -> None:
    response = node.ask(request(1, "t"), listener="CONTROLLER")
    assert (response.error_code, response.topics) == (Errors.INVALID_REQUEST, [])
