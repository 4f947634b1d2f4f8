from __future__ import annotations

from kaa.handlers import authorized_operations
from kaa.wire.errors import Errors
from kaa.wire.messages.k89_streams_group_describe import StreamsGroupDescribeRequest
from tests.unit.handlers.support import Node
from tests.unit.handlers.test_k88_streams_group_heartbeat import heartbeat, ready


def test_groups() -> None:
    with Node() as node:
        ready(node)
        node.ask(heartbeat())
        request = StreamsGroupDescribeRequest(
            group_ids=["g", "absent", ""], include_authorized_operations=True
        )
        groups = {group.group_id: group for group in node.ask(request).groups}
        assert groups["absent"].error_code == Errors.GROUP_ID_NOT_FOUND
        assert groups[""].error_code == Errors.INVALID_GROUP_ID
        assert groups["g"].authorized_operations == authorized_operations.GROUP
        (member,) = groups["g"].members
        assert (member.member_id, member.client_host) == ("m", "/127.0.0.1")
        node.services.image.features["streams.version"] = 0
        refused = node.ask(request).groups[0]
        assert refused.error_code == Errors.UNSUPPORTED_VERSION
