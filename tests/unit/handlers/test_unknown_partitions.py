from __future__ import annotations

from kaa.handlers.unknown_partitions import joined, part_topics
from kaa.wire.errors import Errors
from kaa.wire.messages.k47_offset_delete import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tests.unit.handlers.support import Node


def asked(name: str, *numbers: int) -> OffsetDeleteRequestTopic:
    partitions = [OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
    return OffsetDeleteRequestTopic(name=name, partitions=partitions)


def answer(name: str, error: Errors, *numbers: int) -> OffsetDeleteResponseTopic:
    partitions = [
        OffsetDeleteResponsePartition(partition_index=number, error_code=error)
        for number in numbers
    ]
    return OffsetDeleteResponseTopic(name=name, partitions=partitions)


def test_what_does_not_exist_is_refused(node: Node) -> None:
    node.create_topic("t", 2)
    node.create_topic("u")
    topics = [asked("t", 0, 7, 1), asked("none", 0), asked("u", 0), asked("t", 8)]
    known, refused = node.run(
        part_topics(
            topics,
            lambda topic: node.services.image.topics.get(topic.name),
            lambda topic, missing: OffsetDeleteResponseTopic(name=topic.name, partitions=missing),
            OffsetDeleteResponsePartition,
        )
    )
    assert known == [asked("t", 0, 1), asked("u", 0)]
    unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert refused == [
        answer("t", unknown, 7),
        answer("none", unknown, 0),
        answer("t", unknown, 8),
    ]


def test_each_topic_is_answered_once() -> None:
    unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION
    refused = [answer("t", unknown, 7), answer("none", unknown, 0)]
    both = joined(refused, [answer("u", Errors.NONE, 0), answer("t", Errors.NONE, 0)])
    assert [topic.name for topic in both] == ["t", "none", "u"]
    found = [(one.partition_index, one.error_code) for one in both[0].partitions]
    assert found == [(7, unknown), (0, Errors.NONE)]
