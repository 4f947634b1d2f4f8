from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from tests.unit.handlers.support import Node

Position = tuple[str, int]


@pytest.fixture
def topics(node: Node) -> Node:
    node.create_topic("b", 3)
    node.create_topic("a", 1)
    return node


def describe(
    node: Node, *names: str, cursor: Position | None = None, limit: int = 2_000
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    response: DescribeTopicPartitionsResponse = node.ask(request)
    return response


def page(response: DescribeTopicPartitionsResponse) -> tuple[list[Position], Position | None]:
    """The partitions of an answer, and where the next one starts."""
    cursor = response.next_cursor
    partitions = [
        (topic.name or "", partition.partition_index)
        for topic in response.topics
        for partition in topic.partitions
    ]
    return partitions, None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_topics_of_coordinators_are_internal(topics: Node) -> None:
    topics.create_topic("__consumer_offsets")
    (topic,) = describe(topics, "__consumer_offsets").topics
    assert (topic.error_code, topic.is_internal) == (Errors.NONE, True)


def test_a_topic(topics: Node) -> None:
    (topic,) = describe(topics, "a").topics
    assert (topic.error_code, topic.name, topic.is_internal) == (Errors.NONE, "a", False)
    assert topic.topic_id == topics.services.image.topics["a"].id
    assert topic.topic_authorized_operations == 3576
    assert topic.partitions == [
        DescribeTopicPartitionsResponsePartition(
            partition_index=0,
            leader_id=1,
            leader_epoch=0,
            replica_nodes=[1],
            isr_nodes=[1],
            eligible_leader_replicas=[],
            last_known_elr=[],
        )
    ]


@pytest.mark.parametrize(
    ("names", "limit", "cursor", "expected"),
    [
        ([], 9, None, ([("a", 0), ("b", 0), ("b", 1), ("b", 2)], None)),
        (["b", "a"], 9, None, ([("a", 0), ("b", 0), ("b", 1), ("b", 2)], None)),
        (["b", "b"], 9, None, ([("b", 0), ("b", 1), ("b", 2)], None)),
        ([], 4, None, ([("a", 0), ("b", 0), ("b", 1), ("b", 2)], None)),
        ([], 2, None, ([("a", 0), ("b", 0)], ("b", 1))),
        ([], 1, None, ([("a", 0)], ("b", 0))),
        ([], 0, None, ([("a", 0)], ("b", 0))),
        ([], 1, ("b", 1), ([("b", 1)], ("b", 2))),
        (["b"], -5, ("b", 2), ([("b", 2)], None)),
        (["b"], 5, ("b", 77), ([], None)),
        ([], 9, ("absent", 0), ([("b", 0), ("b", 1), ("b", 2)], None)),
    ],
)
def test_pages(
    topics: Node,
    names: list[str],
    limit: int,
    cursor: Position | None,
    expected: tuple[list[Position], Position | None],
) -> None:
    assert page(describe(topics, *names, cursor=cursor, limit=limit)) == expected


def test_the_limit_of_the_broker() -> None:
    with Node("max.request.partition.size.limit=2") as node:
        node.create_topic("b", 3)
        assert page(describe(node, "b")) == ([("b", 0), ("b", 1)], ("b", 2))


def test_topics_that_do_not_exist_take_no_room(topics: Node) -> None:
    response = describe(topics, "absent", "no such name", "b", limit=1)
    errors = [(topic.name, topic.error_code) for topic in response.topics]
    assert errors == [
        ("absent", Errors.UNKNOWN_TOPIC_OR_PARTITION),
        ("b", Errors.NONE),
    ]
    assert page(response) == ([("b", 0)], ("b", 1))
    (illegal,) = describe(topics, "no such name").topics
    assert illegal.error_code == Errors.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("cursor", [("c", 0), ("a", 0), ("b", -1)])
def test_a_cursor_that_does_not_fit(topics: Node, cursor: Position) -> None:
    (topic,) = describe(topics, "b", cursor=cursor).topics
    assert (topic.name, topic.error_code) == ("b", Errors.INVALID_REQUEST)


def test_the_empty_name_fails_all(topics: Node) -> None:
    response = describe(topics, "", "b")
    errors = [(topic.name, topic.error_code) for topic in response.topics]
    assert errors == [("", Errors.UNKNOWN_SERVER_ERROR), ("b", Errors.UNKNOWN_SERVER_ERROR)]
