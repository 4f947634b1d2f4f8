from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kaa.controller.port import ControllerPort, ControllerRequestContext
from kaa.handlers.context import RequestContext
from kaa.handlers.forwarding import forward, is_controller_listener
from kaa.wire.errors import Errors
from kaa.wire.frames import RequestFrame
from kaa.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kaa.wire.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kaa.wire.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from kaa.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.unit.handlers.support import Node

if TYPE_CHECKING:
    from kaa.net.connection import Connection
    from kaa.wire.schema import Request


def test_what_the_controller_is_told(node: Node) -> None:
    header = RequestFrame(19, 5, 1, "client", 0)
    node.connection.listener_name = "CONTROLLER"
    context = RequestContext(header, cast("Connection", node.connection))
    assert is_controller_listener(node.services, context)
    node.connection.listener_name = "PLAINTEXT"
    assert not is_controller_listener(node.services, context)

    class Told(ControllerPort):
        async def submit(self, request: Any, context: ControllerRequestContext) -> Any:
            return request, context

    services = replace(node.services, controller=Told())
    request = CreateTopicsRequest()
    asked: Any = forward(services, request, context)
    found = node.run(asked)
    assert found[0] is request
    told = found[1]
    assert told.api_version == 5
    assert told.may_describe("any")
    assert told.client == ("client", 1, bytes([127, 0, 0, 1]))
    assert told.timeout_ms is None
    asked = forward(services, request, context, timeout_ms=700)
    assert node.run(asked)[1].timeout_ms == 700


def test_a_controller_listener_waits_no_longer_than_the_request_says(node: Node) -> None:
    active = node.services.metadata.active
    assert active is not None
    node.run(active._turn.acquire())
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t")], timeout_ms=50)
    (topic,) = node.ask(request, listener="CONTROLLER").topics
    assert topic.error_code == Errors.REQUEST_TIMED_OUT
    active._turn.release()


def test_a_controller_that_is_not_active_says_so(node: Node) -> None:
    node.services.metadata.follow(9, 7)
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t")], timeout_ms=1000)
    (topic,) = node.ask(request, listener="CONTROLLER").topics
    assert topic.error_code == Errors.NOT_CONTROLLER


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_requests_that_may_take_no_time(node: Node, timeout_ms: int) -> None:
    requests: list[Request] = [
        CreateTopicsRequest(
            topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)],
            timeout_ms=timeout_ms,
        ),
        DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=timeout_ms),
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)],
            timeout_ms=timeout_ms,
        ),
        ElectLeadersRequest(
            topic_partitions=[TopicPartitions(topic="t", partitions=[0])], timeout_ms=timeout_ms
        ),
        AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name="t",
                    partitions=[ReassignablePartition(partition_index=0, replicas=[1])],
                )
            ],
            timeout_ms=timeout_ms,
        ),
    ]
    for request in requests:
        text = repr(node.ask(request))
        assert f"error_code={int(Errors.REQUEST_TIMED_OUT)}" in text
    assert node.services.image.topics == {}
