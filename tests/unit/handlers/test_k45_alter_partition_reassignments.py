from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.unit.handlers.support import Node


@pytest.mark.parametrize("version", [0, 1])
def test_replicas_on_brokers_that_do_not_exist(node: Node, version: int) -> None:
    node.create_topic("t")
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name="t",
                partitions=[
                    ReassignablePartition(partition_index=0, replicas=[1, 9]),
                    ReassignablePartition(partition_index=5, replicas=[1]),
                ],
            )
        ]
    )
    response = node.ask(request, version)
    assert response.error_code == Errors.NONE
    (topic,) = response.responses
    errors = {each.partition_index: each.error_code for each in topic.partitions}
    assert errors == {
        0: Errors.INVALID_REPLICA_ASSIGNMENT,
        5: Errors.UNKNOWN_TOPIC_OR_PARTITION,
    }
