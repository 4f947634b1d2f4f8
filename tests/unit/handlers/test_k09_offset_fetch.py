from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kaa.wire.primitives import Uuid
from tests.unit.handlers.group_requests import GROUP, committed
from tests.unit.handlers.support import Node

OTHER = Uuid(b"nobody-has-this!")


@pytest.fixture
def filled(node: Node) -> Node:
    node.load_coordinators()
    node.create_topic("t", 2)
    committed(node, ("t", 0, 5))
    return node


@pytest.mark.parametrize("version", range(1, 8))
def test_one_group(filled: Node, version: int) -> None:
    request = OffsetFetchRequest(
        group_id=GROUP, topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
    )
    (topic,) = filled.ask(request, version).topics
    assert [one.committed_offset for one in topic.partitions] == [5, -1]


@pytest.mark.parametrize("version", [2, 7])
def test_all_partitions_of_one_group(filled: Node, version: int) -> None:
    answer = filled.ask(OffsetFetchRequest(group_id=GROUP, topics=None), version)
    assert [topic.name for topic in answer.topics] == ["t"]


@pytest.mark.parametrize("require_stable", [True, False])
def test_many_groups(filled: Node, require_stable: bool) -> None:
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id=GROUP, topics=None),
            OffsetFetchRequestGroup(
                group_id="never",
                topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])],
            ),
        ],
        require_stable=require_stable,
    )
    known, never = filled.ask(request, 9).groups
    assert known.topics[0].partitions[0].committed_offset == 5
    assert never.topics[0].partitions[0].committed_offset == -1
    assert (known.error_code, never.error_code) == (Errors.NONE, Errors.NONE)


def test_topics_by_id(filled: Node) -> None:
    topic_id = filled.services.image.topics["t"].id
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=GROUP,
                topics=[
                    OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0]),
                    OffsetFetchRequestTopics(topic_id=OTHER, partition_indexes=[0]),
                ],
            ),
            OffsetFetchRequestGroup(group_id=GROUP, topics=None),
        ]
    )
    some, everything = filled.ask(request, 10).groups
    assert {topic.topic_id: topic.partitions[0].error_code for topic in some.topics} == {
        topic_id: Errors.NONE,
        OTHER: Errors.UNKNOWN_TOPIC_ID,
    }
    assert [topic.topic_id for topic in everything.topics] == [topic_id]


@pytest.mark.parametrize("version", [1, 2, 9, 10])
def test_a_broker_that_does_not_coordinate(version: int) -> None:
    with Node() as node:
        if version < 8:
            topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
            answer = node.ask(OffsetFetchRequest(group_id=GROUP, topics=topics), version)
            error = answer.topics[0].partitions[0].error_code if version == 1 else answer.error_code
        else:
            group = OffsetFetchRequestGroup(group_id=GROUP, topics=[])
            error = node.ask(OffsetFetchRequest(groups=[group]), version).groups[0].error_code
        assert error == Errors.NOT_COORDINATOR
