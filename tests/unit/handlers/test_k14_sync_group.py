from __future__ import annotations

from kaa.wire.errors import Errors
from kaa.wire.messages.k14_sync_group import SyncGroupRequest
from tests.unit.handlers.group_requests import GROUP, stable_member
from tests.unit.handlers.support import Node


def test_a_request_must_name_its_protocol() -> None:
    with Node("group.initial.rebalance.delay.ms=0") as node:
        node.load_coordinators()
        member_id = stable_member(node)
        request = SyncGroupRequest(group_id=GROUP, member_id=member_id, generation_id=1)
        assert node.ask(request, 5).error_code == Errors.INCONSISTENT_GROUP_PROTOCOL
        answer = node.ask(request, 4)
        assert (answer.error_code, answer.assignment) == (Errors.NONE, b"A")


def test_what_is_refused_at_once() -> None:
    with Node() as node:
        assert node.ask(SyncGroupRequest(group_id=""), 4).error_code == Errors.INVALID_GROUP_ID
        assert node.ask(SyncGroupRequest(group_id=GROUP), 4).error_code == Errors.NOT_COORDINATOR
