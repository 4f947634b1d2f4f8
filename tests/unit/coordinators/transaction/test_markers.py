from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.transaction import markers
from kaa.coordinators.transaction.machine import Decision
from kaa.coordinators.transaction.markers import MarkerSender
from kaa.coordinators.transaction.state import Transaction, TransactionState
from kaa.limits import TRANSACTION_MARKERS_PER_REQUEST_MAX
from kaa.wire.errors import Errors
from kaa.wire.messages.k27_write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.support.pace import PATIENCE_SECONDS


@pytest.fixture(autouse=True)
def short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markers, "TRANSACTION_MARKER_RETRY_SECONDS", 0.001)


class World:
    """Brokers that answer as they are asked to, and a coordinator."""

    def __init__(self) -> None:
        self.leaders: dict[tuple[str, int], int] = {}
        # What is answered for a partition, one after the other; then NONE.
        self.errors: dict[tuple[str, int], list[Errors]] = {}
        self.unreachable = 0
        self.requests: list[tuple[int, WriteTxnMarkersRequest]] = []
        self.completed: list[Decision] = []
        self.completions: asyncio.Queue[Decision] = asyncio.Queue()
        self.refusals: list[Errors] = []
        self.epoch: int | None = 3
        self.done = asyncio.Event()
        self.reports: list[str] = []
        # How many answers leave out what they were asked for.
        self.senseless = 0
        # How many ends of a transaction fail in a way that nobody expected.
        self.mishaps = 0
        self.sender = MarkerSender(self, lambda _: self.epoch, self.complete, self.reports.append)

    def leader(self, name: tuple[str, int]) -> int | None:
        return self.leaders.get(name)

    async def send(
        self, broker_id: int, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse:
        await asyncio.sleep(0)
        if self.unreachable:
            self.unreachable -= 1
            raise ConnectionError
        self.requests.append((broker_id, request))
        response = WriteTxnMarkersResponse(markers=[])
        if self.senseless:
            self.senseless -= 1
            return response
        for marker in request.markers:
            topics = [
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=[
                        WritableTxnMarkerPartitionResult(
                            partition_index=number, error_code=self.error(topic.name, number)
                        )
                        for number in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ]
            response.markers.append(
                WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)
            )
        return response

    def error(self, topic: str, number: int) -> Errors:
        waiting = self.errors.get((topic, number))
        return waiting.pop(0) if waiting else Errors.NONE

    def is_full(self) -> bool:
        return self.sender.is_full

    async def complete_count(self, count: int) -> None:
        """Waits until so many decisions are complete."""
        for _ in range(1_000):
            if len(self.completed) >= count:
                return
            await asyncio.sleep(0)
        pytest.fail(f"only {len(self.completed)} of {count} are complete")

    async def complete(self, decision: Decision) -> None:
        if self.mishaps:
            self.mishaps -= 1
            raise KeyError("nobody expected this")
        if self.refusals:
            raise CoordinatorError(self.refusals.pop(0))
        self.completed.append(decision)
        self.completions.put_nowait(decision)
        self.done.set()


def decision(*numbers: int, name: str = "id", **fields: Any) -> Decision:
    transaction = Transaction(
        7, 4, 1_000, TransactionState.PREPARE_COMMIT, frozenset(("p", number) for number in numbers)
    )
    return Decision(name, transaction._replace(client_transaction_version=2, **fields))


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, PATIENCE_SECONDS))


async def sending(world: World, *decisions: Decision) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(world.sender.run())
    for each in decisions:
        world.sender.send(each)
    return task


def test_each_leader_gets_its_partitions() -> None:
    async def story() -> None:
        world = World()
        world.leaders = {("p", 0): 1, ("p", 1): 2, ("p", 2): 1}
        task = await sending(world, decision(0, 1, 2))
        await world.done.wait()
        sent = {
            broker: [topic.partition_indexes for topic in request.markers[0].topics]
            for broker, request in world.requests
        }
        assert sent == {1: [[0, 2]], 2: [[1]]}
        marker = world.requests[0][1].markers[0]
        assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (
            7,
            4,
            True,
        )
        assert (marker.coordinator_epoch, marker.transaction_version) == (3, 2)
        task.cancel()

    run(story())


def test_decisions_share_a_request() -> None:
    async def story() -> None:
        world = World()
        world.leaders = {("p", 0): 1}
        task = await sending(world, *(decision(0, name=f"id{number}") for number in range(5)))
        await world.complete_count(5)
        assert len(world.requests) == 1
        task.cancel()

    run(story())


@pytest.mark.parametrize(
    "error",
    [
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.NOT_ENOUGH_REPLICAS,
        Errors.REQUEST_TIMED_OUT,
        Errors.KAFKA_STORAGE_ERROR,
    ],
)
def test_what_passes_is_tried_again(error: Errors) -> None:
    async def story() -> None:
        world = World()
        world.leaders = {("p", 0): 1, ("p", 1): 1}
        world.errors = {("p", 1): [error, error]}
        task = await sending(world, decision(0, 1))
        await world.done.wait()
        asked = [request.markers[0].topics[0].partition_indexes for _, request in world.requests]
        assert asked == [[0, 1], [1], [1]]
        task.cancel()

    run(story())


def test_a_broker_that_cannot_be_reached() -> None:
    async def story() -> None:
        world = World()
        world.leaders, world.unreachable = {("p", 0): 1}, 3
        task = await sending(world, decision(0))
        await world.done.wait()
        task.cancel()

    run(story())


def test_it_is_full_until_markers_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markers, "TRANSACTION_DECISIONS_UNDER_WAY_MAX", 2)

    async def story() -> None:
        world = World()
        world.leaders = {("p", 0): -1, ("p", 1): 1}
        task = await sending(world, decision(0, name="a"))
        assert not world.is_full()
        world.sender.send(decision(1, name="b"))
        assert world.is_full()
        await world.complete_count(1)
        await asyncio.sleep(0)
        assert not world.is_full()
        world.sender.send(decision(0, name="c"))
        assert world.is_full()
        world.leaders["p", 0] = 1
        await world.completions.get()
        await world.completions.get()
        await world.completions.get()
        await asyncio.sleep(0)
        assert not world.sender._under_way
        task.cancel()

    run(story())


@pytest.mark.parametrize("error", [Errors.NONE, Errors.INVALID_PRODUCER_EPOCH])
def test_what_is_dropped_does_not_count(monkeypatch: pytest.MonkeyPatch, error: Errors) -> None:
    """Somebody newer decides, or another broker coordinates the transaction now."""
    monkeypatch.setattr(markers, "TRANSACTION_DECISIONS_UNDER_WAY_MAX", 1)

    async def story() -> None:
        world = World()
        world.leaders, world.errors = {("p", 0): 1}, {("p", 0): [error]}
        task = await sending(world, decision(0))
        assert world.is_full()
        if error is Errors.NONE:
            world.epoch = None
        for _ in range(1_000):
            if not world.is_full():
                break
            await asyncio.sleep(0)
        assert not world.is_full()
        assert world.completed == []
        task.cancel()

    run(story())


@pytest.mark.parametrize(
    "error", [Errors.INVALID_PRODUCER_EPOCH, Errors.TRANSACTION_COORDINATOR_FENCED]
)
def test_somebody_newer_decides(error: Errors) -> None:
    async def story() -> None:
        world = World()
        world.leaders, world.errors = {("p", 0): 1}, {("p", 0): [error]}
        task = await sending(world, decision(0), decision(0, name="other"))
        await world.done.wait()
        await asyncio.sleep(0.01)
        assert [one.transactional_id for one in world.completed] == ["other"]
        task.cancel()

    run(story())


def test_very_many_partitions_are_sent_in_parts() -> None:
    async def story() -> None:
        world = World()
        count = 2 * TRANSACTION_MARKERS_PER_REQUEST_MAX + 1
        world.leaders = {("p", number): 1 for number in range(count)}
        # One that is tried again, and one that is gone.
        world.errors["p", 7] = [Errors.NOT_LEADER_OR_FOLLOWER]
        del world.leaders["p", count - 1]
        task = await sending(world, decision(*range(count)), decision(3, name="other"))
        await world.complete_count(2)
        task.cancel()
        sent = [
            number
            for _, request in world.requests
            for marker in request.markers
            for topic in marker.topics
            for number in topic.partition_indexes
        ]
        assert sorted(sent) == sorted([*range(count - 1), 3, 7])
        for _, request in world.requests:
            numbers = [
                len(topic.partition_indexes) for one in request.markers for topic in one.topics
            ]
            assert sum(numbers) < 2 * TRANSACTION_MARKERS_PER_REQUEST_MAX

    run(story())


def test_deleted_partitions_need_no_marker() -> None:
    async def story() -> None:
        world = World()
        task = await sending(world, decision(0, 1), decision(name="empty"))
        await world.complete_count(2)
        assert world.requests == []
        task.cancel()

    run(story())


def test_a_partition_without_a_leader_is_waited_for() -> None:
    async def story() -> None:
        world = World()
        world.leaders = {("p", 0): -1}
        task = await sending(world, decision(0))
        await asyncio.sleep(0.01)
        assert world.requests == []
        world.leaders = {("p", 0): 1}
        await world.done.wait()
        task.cancel()

    run(story())


def test_another_broker_coordinates_now() -> None:
    async def story() -> None:
        world = World()
        world.leaders, world.epoch = {("p", 0): 1}, None
        task = await sending(world, decision(0), decision(name="empty"))
        await asyncio.sleep(0.01)
        assert (world.requests, world.completed) == ([], [])
        task.cancel()

    run(story())


def test_the_completion_is_tried_again() -> None:
    async def story() -> None:
        world = World()
        world.refusals = [Errors.COORDINATOR_NOT_AVAILABLE, Errors.COORDINATOR_NOT_AVAILABLE]
        task = await sending(world, decision())
        await world.done.wait()
        world.refusals = [Errors.NOT_COORDINATOR]
        world.sender.send(decision(name="other"))
        await asyncio.sleep(0.01)
        assert [one.transactional_id for one in world.completed] == ["id"]
        task.cancel()

    run(story())


def test_what_nobody_expected_fails_alone_and_is_tried_again() -> None:
    async def story() -> None:
        world = World()
        world.leaders = {("p", 0): 1, ("p", 1): 2}
        world.senseless, world.mishaps = 2, 1
        task = await sending(world, decision(0, name="a"), decision(1, name="b"))
        ended = {(await world.completions.get()).transactional_id for _ in range(2)}
        assert ended == {"a", "b"}
        assert len(world.reports) == 3
        assert not task.done()
        task.cancel()

    run(story())
