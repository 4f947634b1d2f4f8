from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k15_describe_groups import DescribeGroupsRequest
from tests.unit.handlers.group_requests import join_request
from tests.unit.handlers.support import Node

SETTING = "group.initial.rebalance.delay.ms=0"


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins(version: int) -> None:
    with Node(SETTING) as node:
        node.load_coordinators()
        answer = node.ask(join_request(), version)
        if version >= 4:
            assert answer.error_code == Errors.MEMBER_ID_REQUIRED
            assert answer.protocol_name == (None if version >= 7 else "")
            answer = node.ask(join_request(member_id=answer.member_id), version)
        assert (answer.error_code, answer.generation_id) == (Errors.NONE, 1)
        assert answer.leader == answer.member_id
        assert answer.member_id.startswith("client-")
        (group,) = node.ask(DescribeGroupsRequest(groups=["g"]), 5).groups
        assert group.members[0].client_host == "/127.0.0.1"


@pytest.mark.parametrize(
    ("group", "session_ms", "error"),
    [
        ("", 10_000, Errors.INVALID_GROUP_ID),
        ("g", 5_999, Errors.INVALID_SESSION_TIMEOUT),
        ("g", 1_800_001, Errors.INVALID_SESSION_TIMEOUT),
        ("g", 10_000, Errors.NOT_COORDINATOR),
    ],
)
def test_what_is_refused_at_once(group: str, session_ms: int, error: Errors) -> None:
    with Node() as node:
        answer = node.ask(join_request(group, session_timeout_ms=session_ms))
        assert answer.error_code == error
