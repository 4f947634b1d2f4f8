"""The coordinator of a node over real partitions; each request has its tests with its handler."""

from __future__ import annotations

import pytest

from kaa.coordinators.runtime import partition_for
from kaa.limits import RECORDS_PER_PIECE
from kaa.wire.errors import Errors
from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequest
from kaa.wire.messages.k12_heartbeat import HeartbeatRequest
from kaa.wire.messages.k15_describe_groups import DescribeGroupsRequest
from kaa.wire.messages.k16_list_groups import ListGroupsRequest
from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from kaa.wire.primitives import UUID_ZERO
from tests.unit.handlers.group_requests import GROUP, commit_request, committed, stable_member
from tests.unit.handlers.support import NODE_ID, Node


def offsets(node: Node) -> dict[str, int]:
    answer = node.ask(OffsetFetchRequest(group_id=GROUP, topics=None), 7)
    assert answer.error_code == Errors.NONE
    return {topic.name: topic.partitions[0].committed_offset for topic in answer.topics}


def elect(node: Node, leader: int) -> None:
    topic = node.services.image.topics["__consumer_offsets"]
    for number in topic.partitions:
        change = PartitionChangeRecord(partition_id=number, topic_id=topic.id, leader=leader)
        node.replay(change)


def test_groups_live_in_the_partition_of_their_name() -> None:
    with Node() as node:
        assert node.services.groups.partition_for(GROUP) == partition_for(GROUP, 3)
        node.load_coordinators()
        node.create_topic("t")
        committed(node, ("t", 0, 5))
        number = node.services.groups.partition_for(GROUP)
        assert node.partition("__consumer_offsets", number).online_log().log_end_offset == 1


def test_leadership_that_goes_and_comes_back() -> None:
    with Node("group.initial.rebalance.delay.ms=0") as node:
        node.load_coordinators()
        node.create_topic("t")
        member_id = stable_member(node)
        committed(node, ("t", 0, 5), group="other")
        beat = HeartbeatRequest(group_id=GROUP, member_id=member_id, generation_id=1)
        elect(node, NODE_ID + 1)
        assert node.ask(beat).error_code == Errors.NOT_COORDINATOR
        (topic,) = node.ask(commit_request(GROUP, ("t", 0, 5)), 9).topics
        assert topic.partitions[0].error_code == Errors.NOT_COORDINATOR
        elect(node, NODE_ID)
        node.load_coordinators()
        assert node.ask(beat).error_code == Errors.NONE


def test_positions_in_deleted_topics_are_dropped() -> None:
    with Node() as node:
        node.load_coordinators()
        node.create_topic("t")
        node.create_topic("u")
        committed(node, ("t", 0, 5), ("u", 0, 6))
        assert offsets(node) == {"t": 5, "u": 6}
        node.services.groups.topics_deleted({UUID_ZERO: "t"})
        # The next command waits for what was written before it.
        committed(node, ("u", 0, 7))
        assert offsets(node) == {"u": 7}


@pytest.mark.parametrize("count", [1, 300])
def test_many_groups_in_one_request(count: int) -> None:
    with Node() as node:
        node.load_coordinators()
        names = [f"group-{number}" for number in range(count)]
        answer = node.ask(DescribeGroupsRequest(groups=names), 5)
        assert [group.group_id for group in answer.groups] == names


def test_many_groups_are_listed_and_deleted_in_turns() -> None:
    with Node("offsets.topic.num.partitions=1") as node:
        node.load_coordinators()
        node.create_topic("t")
        names = [f"group-{number}" for number in range(2 * RECORDS_PER_PIECE)]
        for name in names:
            committed(node, ("t", 0, 5), group=name)

        async def ask() -> list[str]:
            answer = node.services.groups.list_groups(
                ListGroupsRequest(), lambda group: group.group_id, lambda _: [], sorted
            )
            assert not answer.done(), "others have a turn"
            return await answer

        assert node.run(ask()) == sorted(names)
        deleted = node.ask(DeleteGroupsRequest(groups_names=names), 2)
        assert {one.error_code for one in deleted.results} == {Errors.NONE}
        assert len(deleted.results) == len(names)
