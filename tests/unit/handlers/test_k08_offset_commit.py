from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.primitives import Uuid
from tests.unit.handlers.group_requests import commit_request
from tests.unit.handlers.support import Node


@pytest.mark.parametrize("version", range(2, 10))
def test_partitions_are_judged_one_by_one(version: int) -> None:
    with Node("offset.metadata.max.bytes=3") as node:
        node.load_coordinators()
        node.create_topic("t", 2)
        request = commit_request("g", ("t", 0, 5), ("nothing", 0, 5), ("t", 7, 5))
        answer = node.ask(request, version)
        found = {
            (topic.name, one.partition_index): one.error_code
            for topic in answer.topics
            for one in topic.partitions
        }
        assert found == {
            ("t", 0): Errors.NONE,
            ("nothing", 0): Errors.UNKNOWN_TOPIC_OR_PARTITION,
            ("t", 7): Errors.UNKNOWN_TOPIC_OR_PARTITION,
        }
        (topic,) = node.ask(commit_request("g", ("t", 0, 5), metadata="long"), version).topics
        assert topic.partitions[0].error_code == Errors.OFFSET_METADATA_TOO_LARGE


def test_topics_by_id() -> None:
    with Node() as node:
        node.load_coordinators()
        node.create_topic("t")
        topic_id = node.services.image.topics["t"].id
        (topic,) = node.ask(commit_request("g", ("", 0, 5), topic_id=topic_id), 10).topics
        assert (topic.topic_id, topic.partitions[0].error_code) == (topic_id, Errors.NONE)
        unknown = Uuid(b"nobody-has-this!")
        (topic,) = node.ask(commit_request("g", ("", 0, 5), topic_id=unknown), 10).topics
        assert topic.partitions[0].error_code == Errors.UNKNOWN_TOPIC_ID


def test_a_broker_that_does_not_coordinate() -> None:
    with Node() as node:
        node.create_topic("t")
        (topic,) = node.ask(commit_request("g", ("t", 0, 5)), 9).topics
        assert topic.partitions[0].error_code == Errors.NOT_COORDINATOR
