from __future__ import annotations

from typing import Any

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.unit.handlers.support import Node

SUBSCRIPTIONS = "SubscribedTopicNames or SubscribedTopicRegex"


def heartbeat(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    """A member that joins, unless fields say otherwise."""
    settings = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 30_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
        **fields,
    }
    return ConsumerGroupHeartbeatRequest(**settings)


@pytest.fixture
def node() -> Any:
    with Node() as running:
        running.load_coordinators()
        running.create_topic("t", partitions=3)
        yield running


@pytest.mark.parametrize("version", [0, 1])
def test_join_stay_and_leave(node: Node, version: int) -> None:
    joined = node.ask(heartbeat(), version)
    assert (joined.error_code, joined.error_message) == (Errors.NONE, None)
    assert (joined.member_id, joined.member_epoch) == ("m", 2)
    assert joined.heartbeat_interval_ms == 5_000
    (topic,) = joined.assignment.topic_partitions
    assert topic.partitions == [0, 1, 2]
    stay = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=2)
    assert node.ask(stay, version).assignment is None
    stay.member_epoch = -1
    left = node.ask(stay, version)
    assert (left.member_id, left.member_epoch, left.heartbeat_interval_ms) == ("m", -1, 0)


def test_only_the_old_version_makes_ids(node: Node) -> None:
    assert len(node.ask(heartbeat(member_id=""), 0).member_id) == 36
    refused = node.ask(heartbeat(member_id=""), 1)
    assert refused.error_code == Errors.INVALID_REQUEST
    assert refused.error_message == "MemberId can't be empty."


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"member_id": "", "member_epoch": 1}, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": -1}, "MemberId can't be empty."),
        ({"instance_id": " "}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"topic_partitions": [TopicPartitions(partitions=[])]},
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            {"subscribed_topic_names": None},
            f"Either {SUBSCRIPTIONS} must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_requests_that_make_no_sense(node: Node, fields: dict[str, Any], message: str) -> None:
    answer = node.ask(heartbeat(**fields), 0)
    assert answer.error_code == Errors.INVALID_REQUEST
    assert answer.error_message == message


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        (
            {"server_assignor": "sticky"},
            Errors.UNSUPPORTED_ASSIGNOR,
            "ServerAssignor sticky is not supported. Supported assignors: uniform, range.",
        ),
        (
            {"member_epoch": 7},
            Errors.GROUP_ID_NOT_FOUND,
            "Consumer group g not found.",
        ),
        (
            {"subscribed_topic_regex": "("},
            Errors.INVALID_REGULAR_EXPRESSION,
            "SubscribedTopicRegex `(` is not a valid regular expression: missing closing ).",
        ),
    ],
)
def test_refusals(node: Node, fields: dict[str, Any], error: Errors, message: str) -> None:
    answer = node.ask(heartbeat(**fields), 1)
    assert (answer.error_code, answer.error_message) == (error, message)


def test_without_the_feature(node: Node) -> None:
    node.services.image.features["group.version"] = 0
    answer = node.ask(heartbeat(), 1)
    assert answer.error_code == Errors.UNSUPPORTED_VERSION
    assert answer.error_message == Errors.UNSUPPORTED_VERSION.message
