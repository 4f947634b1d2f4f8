"""Share state of groups over share coordinators that answer late, or not at all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaa.coordinators.machine import CoordinatorError
from kaa.serving.share.persister import ShareStatePersister
from kaa.wire.errors import Errors
from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest
from kaa.wire.messages.k83_initialize_share_group_state import InitializeShareGroupStateRequest
from kaa.wire.messages.k86_delete_share_group_state import DeleteShareGroupStateRequest
from kaa.wire.messages.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kaa.wire.messages.metadata_topics import RemoveTopicRecord
from tests.unit.handlers.share_fetching import acknowledge, fetch, held
from tests.unit.handlers.share_requests import load_shares, share_node, topic_id
from tests.unit.handlers.support import _Clock
from tests.unit.handlers.test_k76_share_group_heartbeat import heartbeat, joined

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.handlers.support import Node

DELETE = DeleteGroupsRequest(groups_names=["g"])


class Gates:
    """Stands before the share coordinators: a call that a test picks waits there, or fails."""

    def __init__(self, node: Node) -> None:
        self.calls: list[tuple[str, int]] = []
        self.is_held: Callable[[Any], bool] = lambda _: False
        self.is_lost: Callable[[Any], bool] = lambda _: False
        self.error = Errors.REQUEST_TIMED_OUT
        self._held: list[asyncio.Event] = []
        persister = node.services.share_partitions.persister
        assert isinstance(persister, ShareStatePersister)
        self._here = persister.here
        persister.here = self._pass

    async def _pass(self, call: Any, request: Any) -> Any:
        self.calls.append((type(request).__name__, _number(request)))
        if self.is_held(request):
            event = asyncio.Event()
            self._held.append(event)
            await event.wait()
        if self.is_lost(request):
            raise CoordinatorError(self.error)
        return await self._here(call, request)

    def open(self) -> None:
        self.is_held = self.is_lost = lambda _: False
        held, self._held = self._held, []
        for event in held:
            event.set()

    def begun(self, number: int) -> int:
        return self.calls.count((InitializeShareGroupStateRequest.__name__, number))


def _number(request: Any) -> int:
    number: int = request.topics[0].partitions[0].partition
    return number


def kept(node: Node) -> list[tuple[bool, int]]:
    """The partitions that have share state, and whether they are of topic t."""
    return sorted(
        (key.topic_id == topic_id(node), key.partition)
        for shard in node.services.shares.runtime
        for key in shard.machine.states
    )


async def _turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0.001)


def settle(node: Node) -> None:
    node.run(_turns())


def ready(node: Node) -> None:
    node.load_coordinators()
    load_shares(node)
    node.services.image.configs[32, "g"] = {
        "share.assignment.interval.ms": "0",
        "share.auto.offset.reset": "earliest",
    }


def assigned(answer: Any) -> list[int]:
    return sorted(
        number for topic in answer.assignment.topic_partitions for number in topic.partitions
    )


def is_of(kind: type[Any], *numbers: int) -> Callable[[Any], bool]:
    return lambda request: isinstance(request, kind) and _number(request) in numbers


# --- begin


def test_state_in_use_is_not_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a state partition is away, and however often the group asks meanwhile."""
    with share_node("group.share.initialize.retry.interval.ms=1") as node:
        ready(node)
        node.append("t", 5)
        gates = Gates(node)
        gates.is_held = is_of(InitializeShareGroupStateRequest, 0)
        first = node.ask(heartbeat())
        settle(node)
        monkeypatch.setattr(_Clock, "monotonic_ms", lambda _: 60_000)
        node.ask(heartbeat(member_id="other"))
        settle(node)
        assert gates.begun(0) == 1
        gates.open()
        settle(node)
        second = node.ask(heartbeat(member_epoch=first.member_epoch))
        assert assigned(second)
        assert held(fetch(node, 0)) == [(0, 4, 1)]
        assert not acknowledge(node, 1, (0, 4, [1])).responses[0].partitions[0].error_code
        node.append("t", 1)
        assert held(fetch(node, 2)) == [(5, 5, 1)]


def test_a_coordinator_that_is_away_delays_only_its_own_partitions() -> None:
    with share_node() as node:
        ready(node)
        gates = Gates(node)
        gates.is_held = is_of(InitializeShareGroupStateRequest, 0)
        first = node.ask(heartbeat())
        node.run(asyncio.sleep(0.7))
        assert assigned(node.ask(heartbeat(member_epoch=first.member_epoch))) == [1]
        gates.open()
        settle(node)


def test_who_no_longer_coordinates_a_group_begins_nothing_for_it() -> None:
    with share_node() as node:
        ready(node)
        gates = Gates(node)
        gates.error = Errors.COORDINATOR_NOT_AVAILABLE
        gates.is_lost = is_of(InitializeShareGroupStateRequest, 0, 1)
        node.ask(heartbeat())
        while not gates.begun(0):
            settle(node)
        groups = node.services.groups
        shard = groups.runtime.shard(groups.partition_for("g"))
        assert shard is not None
        begun = gates.begun(0)
        shard.close()
        gates.open()
        # By now it would have been tried again.
        node.run(asyncio.sleep(0.2))
        assert gates.begun(0) == begun
        assert kept(node) == []


# --- delete


def test_a_group_whose_deletion_failed_half_way_is_usable() -> None:
    with share_node() as node:
        joined(node)
        node.append("t", 5)
        node.services.image.configs[32, "g"] = {
            "share.assignment.interval.ms": "0",
            "share.auto.offset.reset": "earliest",
        }
        node.ask(heartbeat(member_epoch=-1))
        gates = Gates(node)
        gates.is_lost = is_of(DeleteShareGroupStateRequest, 1)
        assert node.ask(DELETE).results[0].error_code != Errors.NONE
        assert kept(node) == [(True, 1)]
        gates.open()
        epoch = node.ask(heartbeat()).member_epoch
        settle(node)
        assert assigned(node.ask(heartbeat(member_epoch=epoch))) == [0, 1]
        assert held(fetch(node, 0)) == [(0, 4, 1)]


def test_a_group_with_members_keeps_its_state() -> None:
    with share_node() as node:
        joined(node)
        assert node.ask(DELETE).results[0].error_code == Errors.NON_EMPTY_GROUP
        assert kept(node) == [(True, 0), (True, 1)]


def test_a_member_that_joins_while_its_group_is_deleted_gets_its_partitions() -> None:
    with share_node() as node:
        joined(node)
        node.append("t", 1)
        node.ask(heartbeat(member_epoch=-1))
        gates = Gates(node)
        gates.is_held = is_of(DeleteShareGroupStateRequest, 0, 1)

        async def delete() -> tuple[Any, Any]:
            async with asyncio.TaskGroup() as tasks:
                deletion = tasks.create_task(node.asked(DELETE))
                await _turns()
                member = await node.asked(heartbeat())
                await _turns()
                # Nothing is begun that the deletion would take away.
                assert gates.begun(0) == 0
                gates.open()
            return deletion.result(), member

        deletion, member = node.run(delete())
        assert deletion.results[0].error_code == Errors.NON_EMPTY_GROUP
        settle(node)
        assert assigned(node.ask(heartbeat(member_epoch=member.member_epoch))) == [0, 1]
        assert kept(node) == [(True, 0), (True, 1)]


def test_what_a_deletion_of_offsets_left_goes_with_the_group() -> None:
    with share_node() as node:
        joined(node)
        node.ask(heartbeat(member_epoch=-1))
        gates = Gates(node)
        gates.is_lost = is_of(DeleteShareGroupStateRequest, 0, 1)
        topic = DeleteShareGroupOffsetsRequestTopic(topic_name="t")
        node.ask(DeleteShareGroupOffsetsRequest(group_id="g", topics=[topic]))
        assert kept(node) == [(True, 0), (True, 1)]
        gates.open()
        assert node.ask(DELETE).results[0].error_code == Errors.NONE
        assert kept(node) == []


def test_a_topic_that_is_gone_keeps_nobody_elses_state() -> None:
    with share_node() as node:
        ready(node)
        node.create_topic("u", 1)
        node.ask(heartbeat(subscribed_topic_names=["t", "u"]))
        settle(node)
        node.ask(heartbeat(member_epoch=-1))
        assert kept(node) == [(False, 0), (True, 0), (True, 1)]
        gone = topic_id(node)
        # Told to no coordinator, as if they were just loading then.
        node.replay(RemoveTopicRecord(topic_id=gone))
        assert node.ask(DELETE).results[0].error_code == Errors.NONE
        left = [key for shard in node.services.shares.runtime for key in shard.machine.states]
        assert {key.topic_id for key in left} == {gone}
