"""Transactions that a coordinator on another broker is asked about, many with one request.

One request at a time is under way to a broker. What comes meanwhile waits, and goes along with the
next one: the one with the turn sends for all. A transaction stands in a request once, since its
name tells the answers apart; if it is asked about twice, the second time waits for another request.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kaa.limits import TRANSACTION_ADDITIONS_PER_REQUEST_MAX
from kaa.wire.errors import Errors
from kaa.wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaa.model.topics import PartitionName
    from kaa.wire.messages.k24_add_partitions_to_txn import (
        AddPartitionsToTxnResponse,
        AddPartitionsToTxnTransaction,
    )

# What a coordinator says of the partitions that it refuses.
AdditionErrors = dict["PartitionName", Errors]


class _Waiting:
    __slots__ = ("errors", "transaction")

    def __init__(self, transaction: AddPartitionsToTxnTransaction) -> None:
        self.transaction = transaction
        # None until the coordinator has answered, or could not be reached.
        self.errors: AdditionErrors | None = None


class AdditionBatches:
    """The questions to one broker about transactions. `ask` may be called at any time, and shares
    requests with others who ask.
    """

    def __init__(
        self,
        send: Callable[[AddPartitionsToTxnRequest], Awaitable[AddPartitionsToTxnResponse]],
    ) -> None:
        # ConnectionError if the broker cannot be reached.
        self._send = send
        self._turn = asyncio.Lock()
        self._waiting: list[_Waiting] = []

    async def ask(self, transaction: AddPartitionsToTxnTransaction) -> AdditionErrors:
        waiting = _Waiting(transaction)
        self._waiting.append(waiting)
        try:
            async with self._turn:
                while waiting.errors is None:
                    await self._send_waiting()
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
        return waiting.errors

    async def _send_waiting(self) -> None:
        batch: dict[str, _Waiting] = {}
        for waiting in self._waiting:
            if len(batch) == TRANSACTION_ADDITIONS_PER_REQUEST_MAX:
                break
            batch.setdefault(waiting.transaction.transactional_id, waiting)
        request = AddPartitionsToTxnRequest(
            transactions=[waiting.transaction for waiting in batch.values()]
        )
        try:
            response = await self._send(request)
        except ConnectionError:
            response = None
        for waiting in batch.values():
            waiting.errors = refused_partitions(waiting.transaction, response)
        self._waiting = [waiting for waiting in self._waiting if waiting.errors is None]


def refused_partitions(
    transaction: AddPartitionsToTxnTransaction, response: AddPartitionsToTxnResponse | None
) -> AdditionErrors:
    """What the response, or its absence, says of one transaction."""
    error = Errors.NETWORK_EXCEPTION if response is None else Errors.of(response.error_code)
    results = (
        [] if response is None or error is not Errors.NONE else response.results_by_transaction
    )
    for result in results:
        if result.transactional_id == transaction.transactional_id:
            return {
                (topic.name, partition.partition_index): Errors.of(partition.partition_error_code)
                for topic in result.topic_results
                for partition in topic.results_by_partition
                if partition.partition_error_code != Errors.NONE
            }
    if error is Errors.NONE:
        # The coordinator left the transaction out.
        error = Errors.UNKNOWN_SERVER_ERROR
    return {
        (topic.name, number): error for topic in transaction.topics for number in topic.partitions
    }
