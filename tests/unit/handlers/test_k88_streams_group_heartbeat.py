from __future__ import annotations

import asyncio
from typing import Any

from kaa.wire.errors import Errors
from kaa.wire.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.unit.coordinators.group.streams.bench import info, shown, subtopology, topology
from tests.unit.handlers.support import Node

AT_ONCE = {"streams.initial.rebalance.delay.ms": "0", "streams.assignment.interval.ms": "0"}


def heartbeat(**fields: Any) -> StreamsGroupHeartbeatRequest:
    """A member that joins, unless fields say otherwise."""
    settings: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": 0, **fields}
    if not settings["member_epoch"]:
        settings.setdefault("topology", topology())
        settings.setdefault("rebalance_timeout_ms", 1_000)
    return StreamsGroupHeartbeatRequest(**settings)


def ready(node: Node) -> None:
    """Makes a topic t with two partitions, and has groups wait for nobody."""
    node.load_coordinators()
    node.create_topic("t", 2)
    node.services.image.configs[32, "g"] = AT_ONCE


async def topics_made(node: Node) -> None:
    while node.services.streams_topics._under_way:  # noqa: ASYNC110
        await asyncio.sleep(0)


def test_internal_topics_are_made_and_tasks_assigned() -> None:
    with Node() as node:
        ready(node)
        changelog = info("g-c-changelog")
        wanted = topology(subtopology(state_changelog_topics=[changelog]))
        first = node.ask(heartbeat(topology=wanted))
        assert [one.status_code for one in first.status] == [3]
        node.run(topics_made(node))
        made = node.services.image.topics["g-c-changelog"]
        assert len(made.partitions) == 2
        assert node.services.image.configs[2, "g-c-changelog"]["cleanup.policy"] == "compact"
        answer = node.ask(heartbeat(member_epoch=first.member_epoch))
        assert (shown(answer.active_tasks), answer.status) == ({"0": [0, 1]}, [])


def test_requests_that_make_no_sense() -> None:
    with Node() as node:
        ready(node)
        assert node.ask(heartbeat(topology=None)).error_code == Errors.INVALID_REQUEST
        for one in (
            subtopology("0", "__consumer_offsets"),
            subtopology("0", "no such name"),
            subtopology(state_changelog_topics=[info("c", 3)]),
        ):
            answer = node.ask(heartbeat(topology=topology(one)))
            assert answer.error_code == Errors.STREAMS_INVALID_TOPOLOGY
        assert node.ask(heartbeat(member_epoch=1)).error_code == Errors.GROUP_ID_NOT_FOUND


def test_without_the_feature() -> None:
    with Node() as node:
        node.services.image.features["streams.version"] = 0
        assert node.ask(heartbeat()).error_code == Errors.UNSUPPORTED_VERSION
