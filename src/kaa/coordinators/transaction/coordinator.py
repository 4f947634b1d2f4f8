"""The transaction coordinator of a broker, as handlers call it.

Each call goes to the shard of its transactional id. What comes back is a future of the finished
response: the handler says how the answer of the machine reads in its API (`respond`), and how a
refusal does (`refused`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.coordinators.promise import Promise
from kaa.coordinators.runtime import Runtime, partition_for
from kaa.coordinators.shard import ShardState
from kaa.coordinators.transaction.machine import (
    ID_NEEDED,
    RECORD_TYPES,
    AbortWithId,
    Decision,
    TransactionMachine,
)
from kaa.coordinators.transaction.markers import MarkerSender
from kaa.coordinators.transaction.queries import list_transactions
from kaa.model.topics import TRANSACTION_STATE
from kaa.records.batch import NO_PRODUCER_ID
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Coroutine

    from kaa.coordinators.loading import Host
    from kaa.coordinators.machine import Moment
    from kaa.coordinators.transaction.machine import End, Initialisation, ProducerIdAndEpoch
    from kaa.coordinators.transaction.markers import MarkerPort
    from kaa.coordinators.transaction.settings import TransactionSettings
    from kaa.coordinators.transaction.state import Transaction
    from kaa.model.pieces import Pieces
    from kaa.model.topics import PartitionName
    from kaa.wire.messages.k66_list_transactions import ListTransactionsRequest

    CommandWithId = Callable[[TransactionMachine, int, Moment], CoordinatorResult]
    Work = Callable[[], Coroutine[object, object, None]]

R = TypeVar("R")
Shown = TypeVar("Shown")


class TransactionCoordinator:
    """The transaction coordinator as handlers call it. Every call gives a future of the finished
    response, refusals included; `verify_partitions` that of an error for each partition.
    """

    def __init__(
        self,
        host: Host,
        settings: Callable[[], TransactionSettings],
        partition_count: Callable[[], int],
        next_producer_id: Callable[[], Awaitable[int | Errors]],
        port: MarkerPort,
    ) -> None:
        self._host = host
        self.settings = settings
        self._partition_count = partition_count
        self._next_producer_id = next_producer_id
        self.markers = MarkerSender(port, self._coordinator_epoch, self._complete, host.report)
        self.runtime: Runtime[TransactionMachine] = Runtime(
            TRANSACTION_STATE,
            lambda: TransactionMachine(settings),
            RECORD_TYPES,
            host,
            self._perform,
        )

    def partition_for(self, transactional_id: str) -> int:
        return partition_for(transactional_id, self._partition_count())

    def _write_with_id(
        self,
        transactional_id: str,
        command: CommandWithId,
        answer: Promise[R],
        new_id: int = NO_PRODUCER_ID,
    ) -> Promise[R]:
        """Runs a command that may end a transaction, and may need an id for the producer; it is run
        again with one then, and the answer waits for that.
        """
        if new_id == NO_PRODUCER_ID and self.markers.is_full:
            return answer.refuse(CoordinatorError(Errors.COORDINATOR_NOT_AVAILABLE))

        def run(machine: TransactionMachine, now: Moment) -> CoordinatorResult:
            result = command(machine, new_id, now)
            if result.response is not ID_NEEDED:
                return result
            again = partial(self._write_with_new_id, transactional_id, command, answer)
            return CoordinatorResult(effects=[again])

        return self.runtime.write(self.partition_for(transactional_id), run, answer)

    async def _write_with_new_id(
        self, transactional_id: str, command: CommandWithId, answer: Promise[Any]
    ) -> None:
        new_id = await self._next_producer_id()
        if isinstance(new_id, Errors):
            answer.refuse(CoordinatorError(new_id))
        else:
            self._write_with_id(transactional_id, command, answer, new_id)

    # --- producers and their transactions

    def init_producer(
        self,
        wish: Initialisation,
        refused: Callable[[CoordinatorError], R],
        respond: Callable[[ProducerIdAndEpoch | Errors], R],
    ) -> asyncio.Future[R]:
        """It responds to an error where the transaction of an earlier instance had to be ended."""
        return self._write_with_id(
            wish.transactional_id,
            lambda machine, new_id, now: machine.init_producer(wish, new_id, now),
            Promise(self._host.loop, refused, respond),
        )

    def add_partitions(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: frozenset[PartitionName],
        version: int,
        respond: Callable[[Errors], R],
    ) -> asyncio.Future[R]:
        """It responds to NONE, or to why none of them is part of the transaction."""
        answer = Promise(self._host.loop, lambda refusal: respond(refusal.error), respond)
        if not transactional_id:
            return answer.refuse(CoordinatorError(Errors.INVALID_REQUEST))
        return self.runtime.write(
            self.partition_for(transactional_id),
            lambda machine, now: machine.add_partitions(
                transactional_id, producer, partitions, version, now
            ),
            answer,
        )

    def verify_partitions(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: frozenset[PartitionName],
    ) -> asyncio.Future[dict[PartitionName, Errors]]:
        """NONE for those that are part of the open transaction."""
        answer = Promise(self._host.loop, lambda refusal: dict.fromkeys(partitions, refusal.error))
        if not transactional_id:
            return answer.refuse(CoordinatorError(Errors.INVALID_REQUEST))
        return self.runtime.write(
            self.partition_for(transactional_id),
            lambda machine, _: machine.verify_partitions(transactional_id, producer, partitions),
            answer,
        )

    def end(
        self,
        wish: End,
        refused: Callable[[CoordinatorError], R],
        respond: Callable[[ProducerIdAndEpoch], R],
    ) -> asyncio.Future[R]:
        return self._write_with_id(
            wish.transactional_id,
            lambda machine, new_id, now: machine.end(wish, new_id, now),
            Promise(self._host.loop, refused, respond),
        )

    # --- questions

    def describe(
        self,
        transactional_id: str,
        describe: Callable[[Transaction], Pieces[R]],
        refused: Callable[[CoordinatorError], R],
    ) -> asyncio.Future[R]:
        """What `describe` makes of the transaction as it is committed."""

        def described(machine: TransactionMachine) -> Pieces[R]:
            transaction = machine.transactions.committed(transactional_id)
            if transaction is None:
                raise CoordinatorError(Errors.TRANSACTIONAL_ID_NOT_FOUND)
            return describe(transaction)

        answer = Promise(self._host.loop, refused)
        if not transactional_id:
            return answer.refuse(CoordinatorError(Errors.INVALID_REQUEST))
        return self.runtime.read(self.partition_for(transactional_id), described, answer)

    def list_transactions(
        self,
        request: ListTransactionsRequest,
        show: Callable[[str, Transaction], Shown],
        refused: Callable[[CoordinatorError], R],
        respond: Callable[[tuple[list[Shown], list[str]]], R],
    ) -> asyncio.Future[R]:
        """What `respond` makes of all that `show` made of transactions, and of the names of states
        that there are not.
        """
        now_ms = self._host.now().wall_ms
        return self.runtime.read_all(
            lambda machines: list_transactions(machines, request, now_ms, show),
            Promise(self._host.loop, refused, respond),
        )

    # --- what machines cannot do

    def _perform(self, effect: Decision | AbortWithId | Work) -> None:
        if isinstance(effect, Decision):
            self.markers.send(effect)
        elif isinstance(effect, AbortWithId):
            self.markers.start(partial(self._abort_overdue, effect.transactional_id))
        else:
            self.markers.start(effect)

    async def _abort_overdue(self, transactional_id: str) -> None:
        def refused(refusal: CoordinatorError) -> None:
            # It is found again the next time somebody looks.
            self._host.report(
                f"the transaction of {transactional_id!r} ran out of time and could not be "
                f"aborted: {refusal.error.name}"
            )

        await self._write_with_new_id(
            transactional_id,
            lambda machine, new_id, now: machine.abort_overdue(transactional_id, new_id, now),
            Promise(self._host.loop, refused),
        )

    def _coordinator_epoch(self, transactional_id: str) -> int | None:
        shard = self.runtime.shard(self.partition_for(transactional_id))
        if shard is None or shard.state is not ShardState.ACTIVE:
            return None
        return shard.leader_epoch

    def _complete(self, decision: Decision) -> asyncio.Future[Errors]:
        return self.runtime.write(
            self.partition_for(decision.transactional_id),
            lambda machine, now: machine.complete(decision, now),
            Promise(self._host.loop),
        )
