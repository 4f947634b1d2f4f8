from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k52_vote import (
    NodeEndpoint,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
    VoteRequest,
)
from tests.unit.handlers.support import NODE_ID, Node

LEADER = NodeEndpoint(node_id=NODE_ID, host="127.0.0.1", port=9093)


def request(epoch: int, *, voter: int = NODE_ID, partitions: int = 1) -> VoteRequest:
    wanted = [
        RequestPartitionData(partition_index=number, replica_id=7, replica_epoch=epoch)
        for number in range(partitions)
    ]
    topic = RequestTopicData(topic_name="__cluster_metadata", partitions=wanted)
    return VoteRequest(voter_id=voter, topics=[topic])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_leader_votes_for_nobody_else(node: Node, version: int) -> None:
    epoch = node.services.quorum.machine.epoch
    response = node.ask(request(epoch), version, listener="CONTROLLER")
    assert response.error_code == Errors.NONE
    ((partition,),) = [topic.partitions for topic in response.topics]
    assert partition == ResponsePartitionData(
        partition_index=0, leader_id=NODE_ID, leader_epoch=epoch, vote_granted=False
    )
    assert response.node_endpoints == ([LEADER] if version >= 1 else [])


def test_refusals(node: Node) -> None:
    epoch = node.services.quorum.machine.epoch
    stale = node.ask(request(epoch - 1), listener="CONTROLLER")
    assert stale.topics[0].partitions[0].error_code == Errors.INVALID_REQUEST
    elsewhere = node.ask(request(epoch, voter=5), listener="CONTROLLER")
    assert elsewhere.topics[0].partitions[0].error_code == Errors.INVALID_VOTER_KEY
    several = node.ask(request(epoch, partitions=2), listener="CONTROLLER")
    assert (several.error_code, several.topics) == (Errors.INVALID_REQUEST, [])
