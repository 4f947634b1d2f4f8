from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from tests.unit.handlers.group_requests import GROUP, stable_member
from tests.unit.handlers.support import Node

SETTING = "group.initial.rebalance.delay.ms=0"


@pytest.mark.parametrize("version", range(3))
def test_one_member(version: int) -> None:
    with Node(SETTING) as node:
        node.load_coordinators()
        member_id = stable_member(node)

        def leave(group: str, member: str) -> int:
            request = LeaveGroupRequest(group_id=group, member_id=member)
            return int(node.ask(request, version).error_code)

        assert leave(GROUP, "nobody") == Errors.UNKNOWN_MEMBER_ID
        assert leave("never", member_id) == Errors.UNKNOWN_MEMBER_ID
        assert leave("", member_id) == Errors.INVALID_GROUP_ID
        assert leave(GROUP, member_id) == Errors.NONE


@pytest.mark.parametrize("version", range(3, 6))
def test_many_members(version: int) -> None:
    with Node(SETTING) as node:
        node.load_coordinators()
        member_id = stable_member(node)
        members = [MemberIdentity(member_id=one) for one in ("nobody", member_id)]
        answer = node.ask(LeaveGroupRequest(group_id=GROUP, members=members), version)
        assert answer.error_code == Errors.NONE
        assert [one.error_code for one in answer.members] == [
            Errors.UNKNOWN_MEMBER_ID,
            Errors.NONE,
        ]
        answer = node.ask(LeaveGroupRequest(group_id="never", members=members[:1]), version)
        assert [one.error_code for one in answer.members] == [Errors.UNKNOWN_MEMBER_ID]


def test_reasons_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with Node(SETTING) as node, caplog.at_level("INFO", "kaa.coordinators.group.coordinator"):
        node.load_coordinators()
        member_id = stable_member(node)
        members = [
            MemberIdentity(member_id=one, reason="it is closed") for one in (member_id, "nobody")
        ]
        node.ask(LeaveGroupRequest(group_id=GROUP, members=members))
        assert caplog.messages == [f"member {member_id} left group {GROUP}: it is closed"]


def test_a_broker_that_does_not_coordinate() -> None:
    with Node() as node:
        answer = node.ask(LeaveGroupRequest(group_id=GROUP, members=[]))
        assert answer.error_code == Errors.NOT_COORDINATOR
