from __future__ import annotations

from typing import Any

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.unit.handlers.support import Node


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
    assert refused.error_message == "A member id is missing."


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"group_id": ""}, "A group id is missing."),
        ({"member_id": "", "member_epoch": 1}, "A member id is missing."),
        ({"member_id": "", "member_epoch": -1}, "A member id is missing."),
        ({"instance_id": " "}, "The instance id is empty."),
        ({"rack_id": ""}, "The rack id is empty."),
        ({"rebalance_timeout_ms": -1}, "A member that joins must state its rebalance timeout."),
        ({"topic_partitions": None}, "A member that joins must not own partitions."),
        (
            {"topic_partitions": [TopicPartitions(partitions=[])]},
            "A member that joins must not own partitions.",
        ),
        (
            {"subscribed_topic_names": None},
            "A member that joins must state what it subscribes to.",
        ),
        ({"member_epoch": -2}, "Only a static member can leave temporarily."),
        ({"member_epoch": -3}, "-3 is not a valid member epoch."),
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
            "There is no assignor sticky; there are uniform, range.",
        ),
        (
            {"member_epoch": 7},
            Errors.GROUP_ID_NOT_FOUND,
            "There is no group g.",
        ),
        (
            {"subscribed_topic_regex": "("},
            Errors.INVALID_REGULAR_EXPRESSION,
            "( is not a regular expression of RE2: missing ): (.",
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
