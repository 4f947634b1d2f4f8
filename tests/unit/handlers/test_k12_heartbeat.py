from __future__ import annotations

from kaa.wire.errors import Errors
from kaa.wire.messages.k12_heartbeat import HeartbeatRequest
from tests.unit.handlers.group_requests import GROUP, stable_member
from tests.unit.handlers.support import Node


def test_heartbeats() -> None:
    with Node("group.initial.rebalance.delay.ms=0") as node:

        def beat(group: str, member_id: str, generation_id: int) -> int:
            request = HeartbeatRequest(
                group_id=group, member_id=member_id, generation_id=generation_id
            )
            return int(node.ask(request).error_code)

        assert beat(GROUP, "m", 1) == Errors.NOT_COORDINATOR
        node.load_coordinators()
        member_id = stable_member(node)
        assert beat(GROUP, member_id, 1) == Errors.NONE
        assert beat(GROUP, member_id, 2) == Errors.ILLEGAL_GENERATION
        assert beat("", member_id, 1) == Errors.INVALID_GROUP_ID
        assert beat("never", member_id, 1) == Errors.UNKNOWN_MEMBER_ID


def test_nobody_loses_its_place_while_a_group_is_loaded() -> None:
    with Node() as node:
        node.create_offsets_topic()
        request = HeartbeatRequest(group_id=GROUP, member_id="m", generation_id=1)
        assert node.ask(request).error_code == Errors.NONE
