from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.unit.handlers.support import Node


@pytest.mark.parametrize("version", [0, 1, 2])
def test_leaders_that_need_no_election(node: Node, version: int) -> None:
    node.create_topic("t")
    request = ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic="t", partitions=[0, 5])], timeout_ms=60_000
    )
    (topic,) = node.ask(request, version).replica_election_results
    errors = {each.partition_id: each.error_code for each in topic.partition_result}
    assert errors == {0: Errors.ELECTION_NOT_NEEDED, 5: Errors.UNKNOWN_TOPIC_OR_PARTITION}
