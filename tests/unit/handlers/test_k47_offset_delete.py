from __future__ import annotations

from kaa.wire.errors import Errors
from kaa.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.unit.handlers.group_requests import committed
from tests.unit.handlers.support import Node


def request(group: str, topic: str, *partitions: int) -> OffsetDeleteRequest:
    found = [OffsetDeleteRequestPartition(partition_index=number) for number in partitions]
    return OffsetDeleteRequest(
        group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=found)]
    )


def test_offsets_are_deleted() -> None:
    with Node() as node:
        node.load_coordinators()
        node.create_topic("t")
        committed(node, ("t", 0, 1))
        (topic,) = node.ask(request("g", "t", 0, 9)).topics
        assert {one.partition_index: one.error_code for one in topic.partitions} == {
            9: Errors.UNKNOWN_TOPIC_OR_PARTITION,
            0: Errors.NONE,
        }
        (topic,) = node.ask(request("g", "nothing", 0)).topics
        assert topic.partitions[0].error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
        answer = node.ask(request("never", "t", 0))
        assert (answer.error_code, answer.topics) == (Errors.GROUP_ID_NOT_FOUND, [])
        assert node.ask(request("", "t", 0)).error_code == Errors.INVALID_GROUP_ID
