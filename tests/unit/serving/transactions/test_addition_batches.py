"""Questions that wait for each other, to a coordinator that answers when the test says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kaa.serving.transactions.addition_batches import AdditionBatches, refused_partitions
from kaa.wire.errors import Errors
from kaa.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from tests.unit.coordinators.support import turns

FENCED = {("t", 0): Errors.PRODUCER_FENCED}


def question(name: str, epoch: int = 0) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=1,
        producer_epoch=epoch,
        verify_only=True,
        topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])],
    )


class Coordinator:
    """Fences every producer on partition 0, once it is let."""

    def __init__(self) -> None:
        self.requests: list[list[tuple[str, int]]] = []
        self.answers: asyncio.Queue[Exception | None] = asyncio.Queue()

    async def send(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        self.requests.append(
            [(one.transactional_id, one.producer_epoch) for one in request.transactions]
        )
        failure = await self.answers.get()
        if failure is not None:
            raise failure
        partitions = [
            AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=error)
            for number, error in ((0, Errors.PRODUCER_FENCED), (1, Errors.NONE))
        ]
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(name="t", results_by_partition=partitions)
                    ],
                )
                for one in request.transactions
            ]
        )


def test_what_waits_goes_with_one_request() -> None:
    async def main() -> None:
        coordinator = Coordinator()
        batches = AdditionBatches(coordinator.send)
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(batches.ask(question("a")))]
            await turns()
            asked += [tasks.create_task(batches.ask(question(name))) for name in "bcd"]
            await turns()
            assert coordinator.requests == [[("a", 0)]]
            coordinator.answers.put_nowait(None)
            await turns(10)
            assert coordinator.requests[1:] == [[("b", 0), ("c", 0), ("d", 0)]]
            coordinator.answers.put_nowait(None)
        assert [task.result() for task in asked] == [FENCED] * 4
        assert len(coordinator.requests) == 2

    asyncio.run(main())


def test_a_transaction_is_in_a_request_once() -> None:
    async def main() -> None:
        coordinator = Coordinator()
        batches = AdditionBatches(coordinator.send)
        for _ in range(3):
            coordinator.answers.put_nowait(None)
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(batches.ask(question("a", epoch))) for epoch in (0, 1, 2)]
        assert coordinator.requests == [[("a", 0)], [("a", 1)], [("a", 2)]]
        assert [task.result() for task in asked] == [FENCED] * 3

    asyncio.run(main())


def test_a_request_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "kaa.serving.transactions.addition_batches.TRANSACTION_ADDITIONS_PER_REQUEST_MAX", 2
    )

    async def main() -> None:
        coordinator = Coordinator()
        batches = AdditionBatches(coordinator.send)
        async with asyncio.TaskGroup() as tasks:
            for name in "abcdef":
                tasks.create_task(batches.ask(question(name)))
            await turns()
            for _ in range(4):
                coordinator.answers.put_nowait(None)
        assert [len(request) for request in coordinator.requests] == [1, 2, 2, 1]

    asyncio.run(main())


def test_a_broker_that_cannot_be_reached_fails_all_that_was_sent_and_nothing_else() -> None:
    async def main() -> None:
        coordinator = Coordinator()
        batches = AdditionBatches(coordinator.send)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(batches.ask(question("a")))
            await turns()
            second = tasks.create_task(batches.ask(question("b")))
            coordinator.answers.put_nowait(ConnectionError("gone"))
            coordinator.answers.put_nowait(None)
        assert first.result() == dict.fromkeys([("t", 0), ("t", 1)], Errors.NETWORK_EXCEPTION)
        assert second.result() == FENCED

    asyncio.run(main())


def test_anyone_who_gives_up_takes_nobody_along() -> None:
    async def main() -> None:
        coordinator = Coordinator()
        batches = AdditionBatches(coordinator.send)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(batches.ask(question("a")))
            sender = tasks.create_task(batches.ask(question("b")))
            other = tasks.create_task(batches.ask(question("c")))
            waiting = tasks.create_task(batches.ask(question("d")))
            await turns()
            coordinator.answers.put_nowait(None)
            await turns(10)
            assert coordinator.requests[1:] == [[("b", 0), ("c", 0), ("d", 0)]]
            sender.cancel()
            waiting.cancel()
            await turns(10)
            # Another sends again what had no answer.
            assert coordinator.requests[2:] == [[("c", 0)]]
            coordinator.answers.put_nowait(None)
        assert first.result() == other.result() == FENCED
        assert sender.cancelled()
        assert waiting.cancelled()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"error_code": Errors.CLUSTER_AUTHORIZATION_FAILED}, Errors.CLUSTER_AUTHORIZATION_FAILED),
        ({}, Errors.UNKNOWN_SERVER_ERROR),
    ],
    ids=["refused whole", "left out"],
)
def test_answers_that_say_nothing_of_a_transaction(fields: dict[str, Any], error: Errors) -> None:
    response = AddPartitionsToTxnResponse(results_by_transaction=[], **fields)
    found = refused_partitions(question("a"), response)
    assert found == dict.fromkeys([("t", 0), ("t", 1)], error)
