from __future__ import annotations

from kaa.wire.errors import Errors
from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from kaa.wire.messages.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from tests.unit.handlers.share_fetching import fetch, held, ready
from tests.unit.handlers.share_requests import share_node
from tests.unit.handlers.support import Node


def alter(
    node: Node, topic: str, *offsets: tuple[int, int], group: str = "g"
) -> AlterShareGroupOffsetsResponse:
    partitions = [
        AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
        for number, offset in offsets
    ]
    one = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
    found: AlterShareGroupOffsetsResponse = node.ask(
        AlterShareGroupOffsetsRequest(group_id=group, topics=[one])
    )
    return found


def test_a_group_goes_on_where_it_was_put() -> None:
    """W-S10: also where this broker had the state before."""
    with share_node() as node:
        ready(node, 5, 5)
        node.load_coordinators()
        assert held(fetch(node, 0)) == [(0, 9, 1)]
        fetch(node, -1, named=False)
        (topic,) = alter(node, "t", (0, 7), (9, 0)).responses
        errors = [one.error_code for one in topic.partitions]
        assert errors == [Errors.NONE, Errors.UNKNOWN_TOPIC_OR_PARTITION]
        assert held(fetch(node, 0))[0][0] == 7
        (topic,) = alter(node, "absent", (0, 0)).responses
        assert topic.partitions[0].error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_a_group_with_members_is_left_alone() -> None:
    with share_node() as node:
        ready(node, 5)
        node.load_coordinators()
        assert alter(node, "t", (0, 1), group="").error_code == Errors.INVALID_GROUP_ID
        node.ask(
            ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t"])
        )
        assert alter(node, "t", (0, 1)).error_code == Errors.NON_EMPTY_GROUP
