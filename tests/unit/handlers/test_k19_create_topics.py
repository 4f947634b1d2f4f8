from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from tests.unit.handlers.support import Node


@pytest.mark.parametrize("version", [2, 5, 7])
def test_topics_exist_when_the_answer_comes(node: Node, version: int) -> None:
    topics = [
        CreatableTopic(name=name, num_partitions=2, replication_factor=1)
        for name in ("t", "no such name")
    ]
    response = node.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), version)
    errors = {topic.name: topic.error_code for topic in response.topics}
    assert errors == {"t": Errors.NONE, "no such name": Errors.INVALID_TOPIC_EXCEPTION}
    assert node.partition("t", 1).is_leader
