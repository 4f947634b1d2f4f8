"""Thousands of partitions that were created a moment ago: requests that name them all before their
turn to be made has come, and topics of the same names as others that were deleted a moment before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest

from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.scale.requests import NUMBERS, PARTITIONS, TIMEOUT_MS, markers, questions, records_of
from tests.scale.steps import Scale

TOPICS = 200
NAMES = [f"fresh-{number}" for number in range(TOPICS)]
CREATE = CreateTopicsRequest(
    topics=[
        CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1) for name in NAMES
    ],
    timeout_ms=TIMEOUT_MS,
)
DELETE = DeleteTopicsRequest(
    topics=[DeleteTopicState(name=name) for name in NAMES], timeout_ms=TIMEOUT_MS
)
QUESTIONS = questions(NAMES, NUMBERS)


@pytest.fixture
def fresh(scale: Scale) -> Iterator[Scale]:
    yield scale
    scale.delete(NAMES)


def create(scale: Scale) -> None:
    scale.node.client.ask(CREATE, decodes=False)
    known = scale.node.broker.services.image.topics
    scale.wait_until(lambda: all(name in known for name in NAMES))


def settled(scale: Scale) -> bool:
    return not scale.node.call(lambda: scale.node.broker.services.replicas.has_unapplied)


def test_topics_made_again_at_once(fresh: Scale) -> None:
    create(fresh)
    fresh.wait_until(partial(settled, fresh))

    def make_again(_: int) -> None:
        fresh.node.client.ask(DELETE)
        create(fresh)
        fresh.wait_until(partial(settled, fresh))

    fresh.repeated("DeleteTopics and CreateTopics", make_again, 3)


@pytest.mark.parametrize("name", ["DescribeProducers", "ListOffsets", "OffsetForLeaderEpoch"])
def test_questions_about_what_is_not_made_yet(fresh: Scale, name: str) -> None:
    def ask(_: int) -> None:
        fresh.delete(NAMES)
        # Until nothing is left of the names.
        time.sleep(2)  # noqa: TID251  The node runs on another thread.
        create(fresh)
        fresh.node.client.ask(QUESTIONS[name], decodes=False)

    create(fresh)
    fresh.repeated(f"CreateTopics and {name}", ask, 3)


def test_records_for_what_is_not_made_yet(fresh: Scale) -> None:
    def produce(_: int) -> None:
        fresh.delete(NAMES)
        create(fresh)
        request = records_of(fresh.node.broker.services.image, NAMES, NUMBERS)
        fresh.node.client.ask(request, decodes=False)
        logs = fresh.node.broker.services.logs.logs
        ends = [logs[TopicPartition(name, 0)].log_end_offset for name in NAMES]
        assert ends == [1] * TOPICS

    create(fresh)
    fresh.repeated("CreateTopics and Produce", produce, 3)


def test_markers_for_what_is_not_made_yet(fresh: Scale) -> None:
    """Of a transaction that another coordinator ends."""

    def end(_: int) -> None:
        fresh.delete(NAMES)
        time.sleep(2)  # noqa: TID251  As above.
        create(fresh)
        answer = fresh.node.client.ask(markers(NAMES, NUMBERS))
        (found,) = answer.markers
        errors = {one.error_code for topic in found.topics for one in topic.partitions}
        assert errors == {Errors.NONE}

    create(fresh)
    fresh.repeated("CreateTopics and WriteTxnMarkers", end, 3)
