from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    RequestPartitionData,
    RequestTopicData,
)
from tests.unit.handlers.support import NODE_ID, NOW_MS, Node
from tests.unit.handlers.test_k58_envelope import envelope, packed

METADATA = "__cluster_metadata"


def describe(
    node: Node, *wanted: tuple[str, list[int]], version: int | None = None
) -> DescribeQuorumResponse:
    request = DescribeQuorumRequest(
        topics=[
            RequestTopicData(
                topic_name=name,
                partitions=[RequestPartitionData(partition_index=number) for number in numbers],
            )
            for name, numbers in wanted
        ]
    )
    response: DescribeQuorumResponse = node.ask(request, version)
    assert response.error_code == Errors.NONE
    return response


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_quorum_of_one(node: Node, version: int) -> None:
    response = describe(node, (METADATA, [0]), version=version)
    ((partition,),) = [topic.partitions for topic in response.topics]
    assert (partition.leader_id, partition.leader_epoch) == (
        NODE_ID,
        node.services.quorum.machine.epoch,
    )
    assert partition.high_watermark == node.services.image_offset + 1
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (NODE_ID, partition.high_watermark)
    if version == 0:
        assert voter.last_caught_up_timestamp == -1
    else:
        # The two clocks are not read in the same instant.
        assert abs(voter.last_caught_up_timestamp - NOW_MS) <= 100
    assert partition.observers == []
    endpoints = [Listener(name="CONTROLLER", host="127.0.0.1", port=9093)]
    nodes = [(found.node_id, found.listeners) for found in response.nodes]
    assert nodes == ([(NODE_ID, endpoints)] if version >= 2 else [])


@pytest.mark.parametrize(
    "wanted",
    [
        [],
        [("other", [0])],
        [(METADATA, [1])],
        [(METADATA, [0, 1])],
        [(METADATA, [0]), ("other", [0])],
        [(METADATA, [])],
    ],
)
def test_anything_else_is_unknown(node: Node, wanted: list[tuple[str, list[int]]]) -> None:
    response = describe(node, *wanted)
    answered = [
        (topic.topic_name, [partition.partition_index for partition in topic.partitions])
        for topic in response.topics
    ]
    assert answered == wanted
    partitions = [partition for topic in response.topics for partition in topic.partitions]
    assert all(each.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION for each in partitions)
    assert all(each.error_message for each in partitions)


def test_a_replica_that_does_not_lead(node: Node) -> None:
    async def resign() -> None:
        quorum = node.services.quorum
        quorum.resign(quorum.machine.epoch)

    node.run(resign())
    request = DescribeQuorumRequest(
        topics=[
            RequestTopicData(
                topic_name=METADATA, partitions=[RequestPartitionData(partition_index=0)]
            )
        ]
    )
    response = node.ask(request, listener="CONTROLLER")
    assert response.error_code == Errors.NOT_LEADER_OR_FOLLOWER
    assert response.error_message
    assert response.topics == []
    # The broker that passes it on is to look for another controller.
    response = node.ask(envelope(packed(request, 2)), listener="CONTROLLER")
    assert response.error_code == Errors.NOT_CONTROLLER
