from __future__ import annotations

import asyncio

import pytest

from kaa.limits import METADATA_PARTITIONS_PER_SLICE_MAX
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


def test_the_last_broker_names_itself_while_it_stops(node: Node) -> None:
    """A client that hears of none has none to ask any more, and librdkafka never tries again."""
    node.create_topic("t")
    brokers = node.services.image.brokers
    brokers[NODE_ID] = brokers[NODE_ID]._replace(is_fenced=True)
    answer = node.ask(names("t"))
    assert [broker.node_id for broker in answer.brokers] == [NODE_ID]
    brokers[NODE_ID + 1] = brokers[NODE_ID]._replace(id=NODE_ID + 1, is_fenced=False)
    node.create_topic("other")
    answer = node.ask(names("t"))
    assert [broker.node_id for broker in answer.brokers] == [NODE_ID + 1]


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


# --- answers that are kept


def kept(node: Node) -> int:
    return len(node.services.metadata_answers.current())


def test_the_same_question_has_the_same_answer_until_the_metadata_changes(node: Node) -> None:
    node.create_topic("t")
    first = node.ask(names("t"))
    assert kept(node) == 1
    assert node.ask(names("t")) == first
    assert kept(node) == 1
    node.create_topic("u")
    assert kept(node) == 0
    assert told(node.ask(MetadataRequest(topics=None))) == {"t": 0, "u": 0}


def test_what_an_answer_depends_on_makes_it_another_question(node: Node) -> None:
    node.create_topic("t")
    node.create_topic("u")
    everything = MetadataRequest(topics=None)
    with_operations = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    of_the_cluster = MetadataRequest(topics=None, include_cluster_authorized_operations=True)
    by_id = MetadataRequest(
        topics=[MetadataRequestTopic(name=None, topic_id=node.services.image.topics["t"].id)]
    )
    questions: list[tuple[MetadataRequest, int, str]] = [
        (everything, 13, "PLAINTEXT"),
        (everything, 9, "PLAINTEXT"),
        (everything, 13, "OTHER"),
        (with_operations, 10, "PLAINTEXT"),
        (of_the_cluster, 10, "PLAINTEXT"),
        (names("t"), 13, "PLAINTEXT"),
        (names("u", "t"), 13, "PLAINTEXT"),
        (by_id, 13, "PLAINTEXT"),
    ]
    for count, (request, version, listener) in enumerate(questions, 1):
        answer = node.ask(request, version, listener=listener)
        assert kept(node) == count
        assert node.ask(request, version, listener=listener) == answer
        assert kept(node) == count


def test_nothing_is_kept_of_topics_that_are_missing(node: Node) -> None:
    refused = {"new": Errors.UNKNOWN_TOPIC_OR_PARTITION}
    assert told(node.ask(names("new", create=False))) == refused
    assert kept(node) == 0
    assert told(node.ask(names("new"))) == refused
    node.create_topic("other")
    assert told(node.ask(names("new"))) == {"new": 0}


def test_a_large_answer_is_made_in_slices_and_kept(node: Node) -> None:
    node.create_topic("t", partitions=METADATA_PARTITIONS_PER_SLICE_MAX)
    node.create_topic("u", partitions=METADATA_PARTITIONS_PER_SLICE_MAX)
    answer = node.ask(MetadataRequest(topics=None))
    counts = [len(topic.partitions) for topic in answer.topics]
    assert counts == [METADATA_PARTITIONS_PER_SLICE_MAX] * 2
    assert kept(node) == 1
    assert node.ask(MetadataRequest(topics=None)) == answer
