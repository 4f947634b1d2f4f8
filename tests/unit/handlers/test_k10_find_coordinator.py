from __future__ import annotations

import asyncio

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.primitives import UUID_ZERO
from tests.unit.handlers.support import NODE_ID, Node


async def is_there(node: Node, topic: str) -> None:
    async with asyncio.timeout(30):
        while topic not in node.services.image.topics:  # noqa: ASYNC110  Nobody tells of it.
            await asyncio.sleep(0.001)


def test_the_topic_is_created_when_it_is_first_needed() -> None:
    with Node() as node:
        answer = node.ask(FindCoordinatorRequest(key="g"), 0)
        assert (answer.error_code, answer.node_id) == (Errors.COORDINATOR_NOT_AVAILABLE, -1)
        node.run(is_there(node, "__consumer_offsets"))
        assert len(node.services.image.topics["__consumer_offsets"].partitions) == 3
        answer = node.ask(FindCoordinatorRequest(key="g"), 3)
        assert (answer.error_code, answer.error_message) == (Errors.NONE, "NONE")
        assert (answer.node_id, answer.host, answer.port) == (NODE_ID, "127.0.0.1", 9092)


def test_many_keys() -> None:
    with Node() as node:
        node.load_coordinators()
        answer = node.ask(FindCoordinatorRequest(coordinator_keys=["g", ""]), 6)
        assert [(one.key, one.node_id) for one in answer.coordinators] == [
            ("g", NODE_ID),
            ("", NODE_ID),
        ]


@pytest.mark.parametrize(
    ("key_type", "key", "version", "error"),
    [
        (1, "id", 6, Errors.COORDINATOR_NOT_AVAILABLE),
        (2, "group:topic:0", 6, Errors.INVALID_REQUEST),
        (2, f"a:group:{UUID_ZERO}:0", 6, Errors.COORDINATOR_NOT_AVAILABLE),
        (2, f"group:{UUID_ZERO}:0", 5, Errors.INVALID_REQUEST),
        (2, "no share partition", 6, Errors.INVALID_REQUEST),
        (3, "g", 6, Errors.INVALID_REQUEST),
    ],
)
def test_other_kinds_of_coordinators(key_type: int, key: str, version: int, error: Errors) -> None:
    with Node() as node:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        (answer,) = node.ask(request, version).coordinators
        assert (answer.error_code, answer.node_id) == (error, -1)


def test_a_listener_that_the_coordinator_does_not_have() -> None:
    with Node() as node:
        node.load_coordinators()
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        (answer,) = node.ask(request, listener="OTHER").coordinators
        assert answer.error_code == Errors.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_transactions_have_a_coordinator(version: int) -> None:
    with Node() as node:
        node.create_topic("__transaction_state", 3)
        request = FindCoordinatorRequest(key_type=1)
        if version >= 4:
            request.coordinator_keys = ["x"]
        else:
            request.key = "x"
        answer = node.ask(request, version)
        found = answer.coordinators[0] if version >= 4 else answer
        assert (found.error_code, found.node_id, found.port) == (Errors.NONE, NODE_ID, 9092)


def test_the_coordinator_of_a_share_partition() -> None:
    with Node() as node:
        node.create_topic("__share_group_state", 2)
        key = f"g:{UUID_ZERO}:0"
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
        (answer,) = node.ask(request).coordinators
        assert (answer.error_code, answer.key, answer.node_id) == (Errors.NONE, key, 1)
