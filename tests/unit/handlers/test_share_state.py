from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.promise import Promise
from kaa.handlers.context import response_of
from kaa.handlers.share_state import ask_each
from kaa.wire.errors import Errors
from kaa.wire.messages.k86_delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateData,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)
from kaa.wire.primitives import Uuid
from tests.unit.handlers.share_requests import initialise, load_shares, share_node, topic_id


def test_requests_that_name_nothing_are_answered_with_nothing() -> None:
    with share_node() as node:
        load_shares(node)
        some = DeleteStateData(topic_id=topic_id(node), partitions=[PartitionData(partition=0)])
        none = DeleteStateData(topic_id=topic_id(node), partitions=[])
        for group, topics in (("", [some]), ("g", []), ("g", [some, none])):
            request = DeleteShareGroupStateRequest(group_id=group, topics=topics)
            assert node.ask(request).results == []


def test_each_partition_is_answered_for_itself() -> None:
    with share_node() as node:
        load_shares(node)
        asked = DeleteStateData(
            topic_id=topic_id(node), partitions=[PartitionData(partition=one) for one in (0, 1, 7)]
        )
        request = DeleteShareGroupStateRequest(group_id="g", topics=[asked])
        (result,) = node.ask(request).results
        assert [(one.partition, one.error_code) for one in result.partitions] == [
            (0, Errors.NONE),
            (1, Errors.NONE),
            (7, Errors.UNKNOWN_TOPIC_OR_PARTITION),
        ]


def test_a_coordinator_that_is_not_here_says_so() -> None:
    with share_node() as node:
        node.create_topic("t", 2)
        assert initialise(node).error_code == Errors.NOT_COORDINATOR
        node.create_topic("__share_group_state", 3)
        assert initialise(node).error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS


def test_who_asks_and_goes_leaves_nothing_behind() -> None:
    """A refusal that nobody waits for any more would be complained about."""
    complaints: list[Any] = []

    async def leave() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        calls: list[Promise[Any]] = [Promise(loop)]
        some = DeleteStateData(topic_id=Uuid(bytes(16)), partitions=[PartitionData(partition=0)])
        request = DeleteShareGroupStateRequest(group_id="g", topics=[some])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await response_of(
                    ask_each(
                        request,
                        lambda _: calls[0],
                        DeleteShareGroupStateResponse,
                        DeleteStateResult,
                        PartitionResult,
                    )
                )
        calls.pop().refuse(CoordinatorError(Errors.NOT_COORDINATOR))
        gc.collect()

    asyncio.run(leave())
    assert complaints == []
