from __future__ import annotations

from kaa.handlers import authorized_operations
from kaa.wire.errors import Errors
from kaa.wire.messages.k77_share_group_describe import ShareGroupDescribeRequest
from tests.unit.handlers.share_requests import share_node
from tests.unit.handlers.test_k76_share_group_heartbeat import joined


def test_groups() -> None:
    with share_node() as node:
        joined(node)
        request = ShareGroupDescribeRequest(
            group_ids=["g", "absent"], include_authorized_operations=True
        )
        groups = {group.group_id: group for group in node.ask(request).groups}
        assert groups["absent"].error_code == Errors.GROUP_ID_NOT_FOUND
        assert groups["g"].authorized_operations == authorized_operations.GROUP
        (member,) = groups["g"].members
        assert (member.member_id, member.client_host) == ("m", "/127.0.0.1")
        node.services.image.features["share.version"] = 0
        (refused, _) = node.ask(request).groups
        assert refused.error_code == Errors.UNSUPPORTED_VERSION
