"""Performs what the machine of the exactly-once sink asks for."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING, Any, Final

from kaa.client.errors import ClientError, KafkaError
from kaa.limits import (
    SPARK_ENDS_IN_FLIGHT_MAX,
    SPARK_KILLED_TASKS_PAUSE_MS,
    SPARK_MARKERS_WAIT_MS,
)
from kaa.model.words import count_text
from kaa.spark.brokers import brokers_of
from kaa.spark.once.decisions import Decisions
from kaa.spark.once.machine import (
    Await,
    Decide,
    Describe,
    End,
    Entry,
    Fence,
    KnownTransaction,
    ListOpen,
    MarkDone,
    Pause,
    ReadDecision,
)
from kaa.spark.once.transactions import ONGOING, end_transaction
from kaa.spark.writing import sink_values
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.spark.once.machine import Effect, Protocol
    from kaa.spark.options import SinkOptions

# A transaction in one of these has an end, and not all of its markers yet.
_ENDING: Final = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


def name_of_query(options: SinkOptions, query_id: str) -> str:
    """What the names of all transactions of a query begin with."""
    return f"{options.transactional_id_prefix}.{query_id}."


class Driver:
    """Acts for one query; see `kaa.spark.once.machine` for what and why."""

    def __init__(self, options: SinkOptions, query_id: str) -> None:
        self._options = options
        self._brokers = brokers_of(options.settings)
        self._name = name_of_query(options, query_id)
        values = sink_values(options.settings)
        self._commit_id = f"{self._name}commit"
        self._decisions = Decisions(self._brokers, values, query_id, self._commit_id)

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
            case End(entries, is_commit):
                return await self._end_all(entries, is_commit=is_commit)
            case ListOpen():
                return await self._list_open()
            case MarkDone(decision):
                return await self._decisions.write(decision)
            case Await(entries):
                return await self._await(entries)
            case Pause():
                return await asyncio.sleep(SPARK_KILLED_TASKS_PAUSE_MS / 1000)

    async def _describe(self, entries: Sequence[Entry]) -> dict[str, KnownTransaction]:
        names = [entry.transactional_id for entry in entries]
        found = await self._brokers.admin.describe_transactions(names)
        return {
            name: KnownTransaction(state.state == ONGOING, state.producer_id, state.producer_epoch)
            for name, state in found.items()
            if not isinstance(state, KafkaError)
        }

    async def _end_all(self, entries: Sequence[Entry], *, is_commit: bool) -> list[Errors]:
        """So many at a time; when one fails for good, those under way are waited for."""
        allowed = asyncio.Semaphore(SPARK_ENDS_IN_FLIGHT_MAX)

        async def end(entry: Entry) -> Errors:
            async with allowed:
                return await self._end(entry, is_commit=is_commit)

        outcomes = await asyncio.gather(*map(end, entries), return_exceptions=True)
        answered: list[Errors] = []
        for one in outcomes:
            if isinstance(one, BaseException):
                raise one
            answered.append(one)
        return answered

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

    async def _list_open(self) -> tuple[Entry, ...]:
        admin = self._brokers.admin
        names = [
            one.transactional_id
            for one in await admin.list_transactions(states=[ONGOING])
            if one.transactional_id.startswith(self._name)
            and one.transactional_id != self._commit_id
        ]
        found: list[Entry] = []
        for name, state in (await admin.describe_transactions(names)).items() if names else ():
            if isinstance(state, KafkaError):
                raise state
            if state.state == ONGOING:
                found.append(Entry(name, state.producer_id, state.producer_epoch))
        return tuple(found)

    async def _await(self, entries: Sequence[Entry]) -> None:
        """Brokers answer before markers are written; a reader would see the rows a moment later."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SPARK_MARKERS_WAIT_MS / 1000
        names = [entry.transactional_id for entry in entries]
        pause = 0.002
        while names:
            found = await self._brokers.admin.describe_transactions(names)
            names = [
                name
                for name, state in found.items()
                if not isinstance(state, KafkaError) and state.state in _ENDING
            ]
            if names and loop.time() > deadline:
                warnings.warn(
                    f"the markers of {count_text(len(names), 'transaction')} ({names[0]}, ...) are "
                    f"not written after {SPARK_MARKERS_WAIT_MS} ms; readers of committed rows will "
                    "see them later",
                    stacklevel=2,
                )
                return
            if names:
                await asyncio.sleep(pause)
                pause = min(2 * pause, 0.2)
