from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k15_describe_groups import DescribeGroupsRequest
from tests.unit.handlers.group_requests import GROUP, stable_member
from tests.unit.handlers.support import Node


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described(version: int) -> None:
    with Node("group.initial.rebalance.delay.ms=0") as node:
        node.load_coordinators()
        member_id = stable_member(node)
        request = DescribeGroupsRequest(
            groups=[GROUP, "never"], include_authorized_operations=version >= 3
        )
        found = {group.group_id: group for group in node.ask(request, version).groups}
        assert found[GROUP].group_state == "Stable"
        assert [member.member_id for member in found[GROUP].members] == [member_id]
        assert found["never"].group_state == "Dead"
        is_told = version >= 6
        assert found["never"].error_code == (Errors.GROUP_ID_NOT_FOUND if is_told else Errors.NONE)
        if version >= 3:
            assert found[GROUP].authorized_operations == 0b110101001000


def test_a_broker_that_does_not_coordinate() -> None:
    with Node() as node:
        (group,) = node.ask(DescribeGroupsRequest(groups=[GROUP])).groups
        assert (group.group_id, group.error_code) == (GROUP, Errors.NOT_COORDINATOR)
