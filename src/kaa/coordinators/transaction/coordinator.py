"""The transaction coordinator of a broker, as handlers call it.

Each call goes to the shard of its transactional id. CoordinatorError is a refusal, with the error
that the client gets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.coordinators.machine import CoordinatorError, error_for_clients
from kaa.coordinators.runtime import Runtime, partition_for
from kaa.coordinators.shard import ShardState
from kaa.coordinators.transaction.machine import (
    ID_NEEDED,
    RECORD_TYPES,
    Decision,
    ProducerIdAndEpoch,
    TransactionMachine,
)
from kaa.coordinators.transaction.markers import MarkerSender
from kaa.coordinators.transaction.queries import (
    describe,
    list_transactions,
    make_filter,
    refused,
)
from kaa.coordinators.transaction.state import NO_PRODUCER_ID
from kaa.model.topics import TRANSACTION_STATE
from kaa.wire.errors import Errors
from kaa.wire.messages.k66_list_transactions import ListTransactionsResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaa.coordinators.loading import Host
    from kaa.coordinators.machine import CoordinatorResult, Moment
    from kaa.coordinators.transaction.machine import (
        AbortWithId,
        End,
        Initialisation,
    )
    from kaa.coordinators.transaction.markers import MarkerPort
    from kaa.coordinators.transaction.settings import TransactionSettings
    from kaa.coordinators.transaction.state import PartitionName
    from kaa.wire.messages.k65_describe_transactions import (
        TransactionState as DescribedTransaction,
    )
    from kaa.wire.messages.k66_list_transactions import ListTransactionsRequest


class TransactionCoordinator:
    """The transaction coordinator as handlers call it. Refusals are raised as CoordinatorError,
    with the error that the client gets.
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

    async def _write(
        self,
        transactional_id: str,
        command: Callable[[TransactionMachine, Moment], CoordinatorResult],
    ) -> Any:
        try:
            return await self.runtime.write(self.partition_for(transactional_id), command)
        except CoordinatorError as refusal:
            raise CoordinatorError(error_for_clients(refusal.error), refusal.message) from None

    async def _write_with_id(
        self,
        transactional_id: str,
        command: Callable[[TransactionMachine, int, Moment], CoordinatorResult],
    ) -> Any:
        """Runs a command that may need an id for the producer."""
        producer_id = NO_PRODUCER_ID
        while True:
            given = producer_id

            def run(
                machine: TransactionMachine, now: Moment, given: int = given
            ) -> CoordinatorResult:
                return command(machine, given, now)

            response = await self._write(transactional_id, run)
            if response is not ID_NEEDED:
                return response
            found = await self._next_producer_id()
            if isinstance(found, Errors):
                raise CoordinatorError(found)
            producer_id = found

    # --- producers and their transactions

    async def init_producer(self, wish: Initialisation) -> ProducerIdAndEpoch:
        response = await self._write_with_id(
            wish.transactional_id,
            lambda machine, new_id, now: machine.init_producer(wish, new_id, now),
        )
        if isinstance(response, Errors):
            raise CoordinatorError(response)
        assert isinstance(response, ProducerIdAndEpoch)
        return response

    async def add_partitions(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: frozenset[PartitionName],
        version: int,
    ) -> Errors:
        """NONE, or why none of them is part of the transaction."""
        if not transactional_id:
            return Errors.INVALID_REQUEST
        try:
            await self._write(
                transactional_id,
                lambda machine, now: machine.add_partitions(
                    transactional_id, producer, partitions, version, now
                ),
            )
        except CoordinatorError as refusal:
            return refusal.error
        return Errors.NONE

    async def verify_partitions(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: frozenset[PartitionName],
    ) -> dict[PartitionName, Errors]:
        """NONE for those that are part of the open transaction."""
        error = Errors.INVALID_REQUEST
        if transactional_id:
            try:
                found: dict[PartitionName, Errors] = await self._write(
                    transactional_id,
                    lambda machine, _: machine.verify_partitions(
                        transactional_id, producer, partitions
                    ),
                )
            except CoordinatorError as refusal:
                error = refusal.error
            else:
                return found
        return dict.fromkeys(partitions, error)

    async def end(self, wish: End) -> ProducerIdAndEpoch:
        response = await self._write_with_id(
            wish.transactional_id, lambda machine, new_id, now: machine.end(wish, new_id, now)
        )
        assert isinstance(response, ProducerIdAndEpoch)
        return response

    # --- questions

    def describe(self, transactional_id: str) -> DescribedTransaction:
        if not transactional_id:
            return refused(transactional_id, Errors.INVALID_REQUEST)
        try:
            found: DescribedTransaction = self.runtime.read(
                self.partition_for(transactional_id),
                lambda machine: describe(machine, transactional_id),
            )
        except CoordinatorError as refusal:
            return refused(transactional_id, refusal.error)
        return found

    def list_transactions(self, request: ListTransactionsRequest) -> ListTransactionsResponse:
        response = ListTransactionsResponse(unknown_state_filters=[], transaction_states=[])
        shards = [shard for shard in self.runtime if shard.state is ShardState.ACTIVE]
        if any(shard.state is ShardState.LOADING for shard in self.runtime):
            response.error_code = Errors.COORDINATOR_LOAD_IN_PROGRESS
            return response
        try:
            wanted, response.unknown_state_filters = make_filter(request)
        except CoordinatorError as refusal:
            response.error_code = refusal.error
            return response
        now_ms = self._host.now().wall_ms
        for shard in shards:
            response.transaction_states += shard.read(
                lambda machine: list_transactions(machine, wanted, now_ms)
            )
        return response

    # --- what machines cannot do

    def _perform(self, effect: Decision | AbortWithId) -> None:
        if isinstance(effect, Decision):
            self.markers.send(effect)
        else:
            self.markers.start(lambda: self._abort_overdue(effect.transactional_id))

    async def _abort_overdue(self, transactional_id: str) -> None:
        try:
            await self._write_with_id(
                transactional_id,
                lambda machine, new_id, now: machine.abort_overdue(transactional_id, new_id, now),
            )
        except CoordinatorError as refusal:
            # It is found again the next time somebody looks.
            self._host.report(
                f"the transaction of {transactional_id!r} ran out of time and could not be "
                f"aborted: {refusal.error.name}"
            )

    def _coordinator_epoch(self, transactional_id: str) -> int | None:
        shard = self.runtime.shard(self.partition_for(transactional_id))
        if shard is None or shard.state is not ShardState.ACTIVE:
            return None
        return shard.leader_epoch

    async def _complete(self, decision: Decision) -> None:
        await self._write(
            decision.transactional_id, lambda machine, now: machine.complete(decision, now)
        )
