from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.unit.handlers.support import Node


@pytest.mark.parametrize("version", [1, 5])
def test_by_name(node: Node, version: int) -> None:
    node.create_topic("t")
    request = DeleteTopicsRequest(topic_names=["t", "absent"], timeout_ms=60_000)
    response = node.ask(request, version)
    errors = {topic.name: topic.error_code for topic in response.responses}
    assert errors == {"t": Errors.NONE, "absent": Errors.UNKNOWN_TOPIC_OR_PARTITION}
    assert node.services.replicas.find("t", 0) is Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert node.services.logs.logs == {}


def test_by_id(node: Node) -> None:
    node.create_topic("t")
    topic_id = node.services.image.topics["t"].id
    request = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic_id)], timeout_ms=60_000)
    (topic,) = node.ask(request).responses
    assert (topic.name, topic.topic_id, topic.error_code) == ("t", topic_id, Errors.NONE)
