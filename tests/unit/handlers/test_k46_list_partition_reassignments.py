from __future__ import annotations

from kaa.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
)
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from tests.unit.handlers.support import Node


def ongoing(
    node: Node, *wanted: tuple[str, list[int]], everything: bool = False
) -> dict[str, list[OngoingPartitionReassignment]]:
    topics = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
        for name, numbers in wanted
    ]
    request = ListPartitionReassignmentsRequest(topics=None if everything else topics)
    response = node.ask(request)
    assert (response.error_code, response.error_message) == (0, None)
    return {topic.name: topic.partitions for topic in response.topics}


def test_nothing_moves(node: Node) -> None:
    node.create_topic("t", 2)
    assert ongoing(node, everything=True) == {}
    assert ongoing(node) == {}
    assert ongoing(node, ("t", [0, 1, 9]), ("absent", [0])) == {}


def test_what_moves(node: Node) -> None:
    node.create_topic("t", 2)
    node.replay(
        PartitionChangeRecord(
            topic_id=node.services.image.topics["t"].id,
            partition_id=1,
            replicas=[1, 2],
            adding_replicas=[2],
            removing_replicas=[1],
        )
    )
    moving = OngoingPartitionReassignment(
        partition_index=1, replicas=[1, 2], adding_replicas=[2], removing_replicas=[1]
    )
    assert ongoing(node, everything=True) == {"t": [moving]}
    assert ongoing(node, ("t", [0, 1])) == {"t": [moving]}
    assert ongoing(node, ("t", [0])) == {}
