from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tests.unit.handlers.support import Node


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_more_partitions(node: Node, version: int) -> None:
    node.create_topic("t", 1)
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name="t", count=3, assignments=None),
            CreatePartitionsTopic(name="absent", count=3, assignments=None),
        ],
        timeout_ms=60_000,
    )
    response = node.ask(request, version)
    errors = {topic.name: topic.error_code for topic in response.results}
    assert errors == {"t": Errors.NONE, "absent": Errors.UNKNOWN_TOPIC_OR_PARTITION}
    assert node.partition("t", 2).is_leader
