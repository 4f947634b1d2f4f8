from __future__ import annotations

from kaa.handlers.k16_list_groups import listed_group
from kaa.wire.errors import Errors
from kaa.wire.messages.k16_list_groups import ListGroupsRequest
from tests.unit.coordinators.group.consumer.bench import ConsumerBench
from tests.unit.coordinators.group.streams.bench import StreamsBench
from tests.unit.handlers.group_requests import committed, stable_member
from tests.unit.handlers.support import Node


def test_groups_are_listed() -> None:
    with Node("group.initial.rebalance.delay.ms=0") as node:
        assert node.ask(ListGroupsRequest()).groups == []
        node.load_coordinators()
        node.create_topic("t")
        stable_member(node)
        committed(node, ("t", 0, 1), group="simple")

        def names(request: ListGroupsRequest, version: int = 5) -> set[str]:
            return {group.group_id for group in node.ask(request, version).groups}

        assert names(ListGroupsRequest(), 0) == {"g", "simple"}
        assert names(ListGroupsRequest(states_filter=["Stable"])) == {"g"}
        assert names(ListGroupsRequest(types_filter=["consumer"])) == set()
        listed = {group.group_id: group for group in node.ask(ListGroupsRequest()).groups}
        member, simple = listed["g"], listed["simple"]
        assert (member.protocol_type, member.group_state) == ("consumer", "Stable")
        assert (simple.protocol_type, simple.group_state, simple.group_type) == (
            "",
            "Empty",
            "classic",
        )


def test_a_broker_that_is_loading() -> None:
    with Node() as node:
        node.create_offsets_topic()
        assert node.ask(ListGroupsRequest()).error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS


def test_groups_of_the_newer_protocols() -> None:
    consumers, streams = ConsumerBench(), StreamsBench()
    consumers.beat("a")
    streams.ask()
    found = [listed_group(one) for one in (consumers.consumer_group(), streams.streams_group)]
    assert [(one.protocol_type, one.group_type, one.group_state) for one in found] == [
        ("consumer", "consumer", "Stable"),
        ("streams", "streams", "Stable"),
    ]
