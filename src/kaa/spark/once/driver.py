"""Performs what the machine of the exactly-once sink asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kaa.client.errors import ClientError, KafkaError
from kaa.spark.brokers import brokers_of
from kaa.spark.once.decisions import Decisions
from kaa.spark.once.machine import (
    Decide,
    Describe,
    End,
    Fence,
    MarkDone,
    ReadDecision,
    Sweep,
    TransactionState,
)
from kaa.spark.once.transactions import ONGOING, end_transaction, init_transaction
from kaa.spark.writing import sink_values
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.spark.once.machine import (
        Effect,
        Entry,
        Protocol,
    )
    from kaa.spark.options import SinkOptions


def name_of_query(options: SinkOptions, query_id: str) -> str:
    """What the names of all transactions of a query begin with."""
    return f"{options.transactional_id_prefix}.{query_id}."


class Driver:
    """Acts for one query; see ``kaa.spark.once.machine`` for what and why."""

    def __init__(self, options: SinkOptions, query_id: str) -> None:
        self._options = options
        self._brokers = brokers_of(options.settings)
        self._name = name_of_query(options, query_id)
        values = sink_values(options.settings)
        self._decisions = Decisions(self._brokers, values, query_id, f"{self._name}commit")

    def run(self, protocol: Protocol) -> None:
        """Goes through a protocol; raises what it raises."""
        answer: Any = None
        while True:
            try:
                effect = protocol.send(answer)
            except StopIteration:
                return
            answer = self._brokers.call(self._perform(effect))

    async def _perform(self, effect: Effect) -> Any:
        match effect:
            case Fence():
                return await self._decisions.fence()
            case ReadDecision():
                return await self._decisions.newest()
            case Describe(entries):
                return await self._describe(entries)
            case Decide(decision):
                return await self._decisions.write(decision)
            case End(entry, is_commit):
                return await self._end(entry, is_commit=is_commit)
            case MarkDone(decision):
                return await self._decisions.write(replace(decision, is_done=True))
            case Sweep():
                return await self._sweep()

    async def _describe(self, entries: Sequence[Entry]) -> dict[str, TransactionState]:
        names = [entry.transactional_id for entry in entries]
        found = await self._brokers.admin.describe_transactions(names)
        return {
            name: TransactionState(state.state == ONGOING, state.producer_id, state.producer_epoch)
            for name, state in found.items()
            if not isinstance(state, KafkaError)
        }

    async def _end(self, entry: Entry, *, is_commit: bool) -> Errors:
        try:
            return await end_transaction(
                self._brokers.cluster, entry, self._brokers.timeout_ms, is_commit=is_commit
            )
        except ClientError:
            if is_commit:
                raise
            # One that stays open is swept away later, or times out.
            return Errors.NONE

    async def _sweep(self) -> None:
        admin = self._brokers.admin
        for one in await admin.list_transactions(states=[ONGOING]):
            name = one.transactional_id
            if name.startswith(self._name) and name != f"{self._name}commit":
                await init_transaction(admin, name, self._options.transaction_timeout_ms)
