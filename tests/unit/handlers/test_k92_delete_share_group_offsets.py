from __future__ import annotations

from kaa.wire.errors import Errors
from kaa.wire.messages.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from tests.unit.handlers.share_fetching import ready
from tests.unit.handlers.share_requests import set_offset, share_node
from tests.unit.handlers.support import Node


def forget(node: Node, *topics: str, group: str = "g") -> DeleteShareGroupOffsetsResponse:
    named = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
    found: DeleteShareGroupOffsetsResponse = node.ask(
        DeleteShareGroupOffsetsRequest(group_id=group, topics=named)
    )
    return found


def test_a_group_forgets_a_topic() -> None:
    with share_node() as node:
        ready(node, 5)
        node.load_coordinators()
        assert forget(node, "t").error_code == Errors.GROUP_ID_NOT_FOUND
        assert forget(node, "t", group="").error_code == Errors.INVALID_GROUP_ID
        set_offset(node, 2)
        answer = forget(node, "t", "absent")
        errors = [one.error_code for one in answer.responses]
        assert errors == [Errors.NONE, Errors.UNKNOWN_TOPIC_OR_PARTITION]
        assert forget(node, "t").responses[0].error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
