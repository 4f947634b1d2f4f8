from __future__ import annotations

import asyncio

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kaa.wire.primitives import Uuid
from tests.unit.handlers.support import NODE_ID, Node


def names(*topics: str, create: bool = True) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=topic) for topic in topics],
        allow_auto_topic_creation=create,
    )


def told(response: MetadataResponse) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.mark.parametrize("version", [0, 1, 4, 5, 7, 9, 10, 12, 13])
def test_topic_with_its_partitions_and_the_broker(node: Node, version: int) -> None:
    node.create_topic("t", partitions=3)
    answer = node.ask(names("t"), version)
    assert [broker.node_id for broker in answer.brokers] == [NODE_ID]
    (topic,) = answer.topics
    assert [part.partition_index for part in topic.partitions] == [0, 1, 2]
    assert {part.leader_id for part in topic.partitions} == {NODE_ID}


def test_all_topics(node: Node) -> None:
    node.create_topic("a")
    node.create_topic("b")
    assert told(node.ask(MetadataRequest(topics=None))) == {"a": 0, "b": 0}
    assert told(node.ask(MetadataRequest(topics=[]))) == {}
    assert told(node.ask(MetadataRequest(topics=[]), 0)) == {"a": 0, "b": 0}


def test_topics_by_id(node: Node) -> None:
    node.create_topic("t")
    known = node.services.image.topics["t"].id
    unknown = Uuid(b"x" * 16)
    wanted = [MetadataRequestTopic(topic_id=found, name=None) for found in (known, unknown)]
    answer = node.ask(MetadataRequest(topics=wanted))
    assert told(answer) == {"t": 0, None: Errors.UNKNOWN_TOPIC_ID}


def test_unknown_topic_is_created_if_that_is_wanted(node: Node) -> None:
    refused = {"new": Errors.UNKNOWN_TOPIC_OR_PARTITION}
    assert told(node.ask(names("new", create=False))) == refused
    assert "new" not in node.services.image.topics

    async def until_created() -> None:
        assert told(await node.asked(names("new"))) == refused
        while "new" not in node.services.image.topics:  # noqa: ASYNC110  Nobody tells.
            await asyncio.sleep(0)

    node.run(until_created())
    assert told(node.ask(names("new"))) == {"new": 0}


def test_impossible_name_is_refused(node: Node) -> None:
    assert told(node.ask(names("a b"))) == {"a b": Errors.INVALID_TOPIC_EXCEPTION}


def test_authorized_operations_are_told_on_request(node: Node) -> None:
    node.create_topic("t")
    request = names("t")
    unknown = -(2**31)
    assert node.ask(request, 10).topics[0].topic_authorized_operations == unknown
    request.include_topic_authorized_operations = True
    request.include_cluster_authorized_operations = True
    answer = node.ask(request, 10)
    assert answer.topics[0].topic_authorized_operations > 0
    assert answer.cluster_authorized_operations > 0
