from __future__ import annotations

import pytest

from kaa.handlers.k15_describe_groups import describe
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k15_describe_groups import DescribeGroupsRequest
from tests.unit.coordinators.group.bench import GroupBench, subscription
from tests.unit.coordinators.group.consumer.bench import ConsumerBench
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


def test_a_group_in_its_states() -> None:
    bench = GroupBench()
    ids = bench.stable("a")
    group = finish(describe(GROUP, bench.group, 5))
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (
        ids["a"],
        "a",
        "/127.0.0.1",
    )
    assert member.member_metadata == subscription("t")
    assert member.member_assignment == ids["a"].encode()
    bench.join("a", ids["a"])
    group = finish(describe(GROUP, bench.group, 5))
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert group.members[0].member_metadata == b""


def test_what_does_not_exist() -> None:
    old = finish(describe(GROUP, None, 5))
    assert (old.group_state, old.error_code) == ("Dead", Errors.NONE)
    new = finish(describe(GROUP, None, 6))
    assert (new.group_state, new.error_code) == ("Dead", Errors.GROUP_ID_NOT_FOUND)
    assert new.error_message == "Group g not found."


def test_a_group_of_another_kind() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    group = bench.consumer_group()
    old, new = (finish(describe("g", group, version)) for version in (5, 6))
    assert (old.group_state, old.error_code) == ("Dead", Errors.NONE)
    assert (new.group_state, new.error_code) == ("Dead", Errors.GROUP_ID_NOT_FOUND)
    assert new.error_message == "Group g is a consumer group."
