"""Share state through the persister: of this broker by a call, of others over the wire."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, cast

import pytest

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.share.batches import StateBatch
from kaa.coordinators.share.machine import StateChange
from kaa.coordinators.share.state import SharePartitionKey
from kaa.limits import SHARE_STATE_CALLS_PER_TURN_MAX
from kaa.serving.share import persister as persister_module
from kaa.serving.share.machine import SharePartition, ShareSettings
from kaa.serving.share.persister import ShareStatePersister
from kaa.wire.errors import Errors
from kaa.wire.messages import k84_read_share_group_state as k84
from kaa.wire.primitives import Uuid
from tests.unit.handlers.share_requests import load_shares, share_node, topic_id
from tests.unit.handlers.support import Node

CALLS = 100


def persister(node: Node) -> ShareStatePersister:
    services = node.services
    return ShareStatePersister(
        services.view,
        services.shares,
        services.replicas,
        services.topic_creation,
        services.brokers,
    )


def test_all_calls_reach_the_coordinator_of_this_broker() -> None:
    with share_node() as node:
        load_shares(node)
        key = SharePartitionKey("g", topic_id(node), 1)
        made = persister(node)

        async def calls() -> None:
            await made.initialise(key, 3, 5)
            await made.write(key, StateChange(3, 0, 6, 1, (StateBatch(6, 7, 1, 2),)))
            found = await made.read(key, 2)
            assert (found.state_epoch, found.start_offset) == (3, 6)
            assert found.batches == (StateBatch(6, 7, 1, 2),)
            assert (await made.summary(key)).delivery_complete_count == 1
            await made.delete(key)
            with pytest.raises(CoordinatorError) as refused:
                await made.read(key, 2)
            assert refused.value.error is Errors.INVALID_REQUEST

        node.run(calls())


def test_a_coordinator_that_loads_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persister_module, "SHARE_STATE_RETRY_SECONDS_MIN", 0.001)
    with share_node() as node:
        node.create_topic("t", 2)
        node.create_topic("__share_group_state", 3)
        key = SharePartitionKey("g", topic_id(node), 0)
        made = persister(node)

        async def later() -> None:
            async with asyncio.TaskGroup() as tasks:
                asked = tasks.create_task(made.initialise(key, 0, -1))
                await asyncio.sleep(0.01)
                assert not asked.done()
                for shard in tuple(node.services.shares.runtime):
                    await shard.load()

        node.run(later())


def test_what_stays_away_is_an_error_and_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persister_module, "SHARE_STATE_RETRY_SECONDS_MIN", 0.0001)
    monkeypatch.setattr(persister_module, "SHARE_STATE_RETRY_SECONDS_MAX", 0.0001)
    with share_node() as node:
        node.create_topic("t", 2)
        node.create_topic("__share_group_state", 3)
        key = SharePartitionKey("g", topic_id(node), 0)
        with pytest.raises(CoordinatorError) as refused:
            node.run(persister(node).read(key, 0))
        assert refused.value.error is Errors.COORDINATOR_LOAD_IN_PROGRESS


class Elsewhere:
    """Another broker that keeps all share state, and answers with what it is given."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def leader(self, _: tuple[str, int]) -> int:
        return 99

    def at(self, _: int) -> Elsewhere:
        return self

    async def ask(self, _: object) -> object:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def asked_elsewhere(node: Node, answer: object) -> ShareStatePersister:
    node.create_topic("t", 2)
    node.create_topic("__share_group_state", 3)
    services, other = node.services, cast("Any", Elsewhere(answer))
    return ShareStatePersister(
        services.view, services.shares, services.replicas, services.topic_creation, other
    )


def read_answer(row: k84.PartitionResult) -> k84.ReadShareGroupStateResponse:
    result = k84.ReadStateResult(topic_id=Uuid(bytes(16)), partitions=[row])
    return k84.ReadShareGroupStateResponse(results=[result])


@pytest.mark.parametrize("error", [Errors.FENCED_LEADER_EPOCH, Errors.UNKNOWN_SERVER_ERROR])
def test_an_error_of_another_broker_is_an_error_and_no_state(error: Errors) -> None:
    """W-S1."""
    with share_node() as node:
        made = asked_elsewhere(node, read_answer(k84.PartitionResult(error_code=error)))
        with pytest.raises(CoordinatorError) as refused:
            node.run(made.read(SharePartitionKey("g", topic_id(node), 0), 0))
        assert refused.value.error is error


def test_a_broker_that_is_not_reached_is_an_error_and_no_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """W-S1."""
    monkeypatch.setattr(persister_module, "SHARE_STATE_RETRY_SECONDS_MIN", 0.0001)
    monkeypatch.setattr(persister_module, "SHARE_STATE_RETRY_SECONDS_MAX", 0.0001)
    with share_node() as node:
        made = asked_elsewhere(node, ConnectionResetError())
        with pytest.raises(CoordinatorError) as refused:
            node.run(made.read(SharePartitionKey("g", topic_id(node), 0), 0))
        assert refused.value.error is Errors.NETWORK_EXCEPTION


def test_what_is_done_with_is_counted_anew_from_the_state_of_another_broker() -> None:
    """W-S8: a leader that reads from another broker gets batches alone, and writes on with
    the number of records that are done with.
    """
    batches = [
        k84.StateBatch(first_offset=4, last_offset=5, delivery_state=0, delivery_count=1),
        k84.StateBatch(first_offset=6, last_offset=8, delivery_state=2, delivery_count=1),
    ]
    row = k84.PartitionResult(state_epoch=3, start_offset=4, state_batches=batches)
    with share_node() as node:
        made = asked_elsewhere(node, read_answer(row))
        state = node.run(made.read(SharePartitionKey("g", topic_id(node), 0), 2))
        machine = SharePartition(ShareSettings)
        machine.load(state.start_offset, state.batches)
        assert (machine.start_offset, machine.delivery_complete_count) == (4, 3)


def test_thousands_of_calls_begin_in_many_rounds() -> None:
    """Others are heard in between, and a group with few calls does not wait for one with many."""
    with share_node() as node:
        load_shares(node)
        made = persister(node)
        begun: list[tuple[str, int]] = []
        rounds = 0

        async def noted(_: object, request: Any) -> Any:
            begun.append((request.group_id, rounds))
            return None

        made.here = noted

        async def calls() -> None:
            nonlocal rounds
            keys = [SharePartitionKey("many", topic_id(node), 1)] * CALLS
            keys.append(SharePartitionKey("few", topic_id(node), 0))
            async with asyncio.TaskGroup() as tasks:
                asked = [tasks.create_task(made.delete(key)) for key in keys]
                while not all(task.done() for task in asked):
                    await asyncio.sleep(0)
                    rounds += 1

        node.run(calls())
        assert len(begun) == CALLS + 1
        per_round = Counter(number for _, number in begun)
        assert max(per_round.values()) == SHARE_STATE_CALLS_PER_TURN_MAX
        (few,) = (number for group, number in begun if group == "few")
        assert few <= sorted(per_round)[1]
