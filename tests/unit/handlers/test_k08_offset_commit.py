from __future__ import annotations

from collections import Counter

import pytest

from kaa.limits import OFFSETS_LISTED_PER_SLICE_MAX
from kaa.wire.errors import Errors
from kaa.wire.messages.k08_offset_commit import OffsetCommitRequestPartition
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


MANY = 2 * OFFSETS_LISTED_PER_SLICE_MAX


@pytest.mark.parametrize("version", [9, 10])
def test_very_many_partitions_are_judged_one_by_one(version: int) -> None:
    with Node() as node:
        node.load_coordinators()
        node.create_topic("t", 2)
        request = commit_request("g", ("t", 0, 5), ("nothing", 0, 5))
        known, unknown = request.topics
        known.partitions += [
            OffsetCommitRequestPartition(partition_index=number, committed_offset=5)
            for number in range(1, MANY)
        ]
        if version == 10:
            known.topic_id = node.services.image.topics["t"].id
            unknown.topic_id = Uuid(b"nobody-has-this!")
        answer = node.ask(request, version)
        errors = {
            (topic.topic_id if version == 10 else topic.name): {
                one.partition_index: one.error_code for one in topic.partitions
            }
            for topic in answer.topics
        }
        missing = Errors.UNKNOWN_TOPIC_OR_PARTITION
        assert errors == {
            (known.topic_id if version == 10 else "t"): dict.fromkeys(range(MANY), missing)
            | dict.fromkeys((0, 1), Errors.NONE),
            (unknown.topic_id if version == 10 else "nothing"): {
                0: Errors.UNKNOWN_TOPIC_ID if version == 10 else missing
            },
        }


def test_very_many_partitions_where_nobody_coordinates() -> None:
    with Node() as node:
        node.create_topic("t", 2)
        answer = node.ask(commit_request("g", *[("t", 0, 5), ("t", 7, 5)] * MANY), 9)
        errors = Counter(
            (one.partition_index, one.error_code)
            for topic in answer.topics
            for one in topic.partitions
        )
        assert errors == {
            (0, Errors.NOT_COORDINATOR): MANY,
            (7, Errors.UNKNOWN_TOPIC_OR_PARTITION): MANY,
        }
