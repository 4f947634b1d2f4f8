"""Before a transaction writes to a partition for the first time, its coordinator is asked.

Otherwise a batch that comes late, after its transaction ended, would open one that nobody ends and
that keeps readers of committed data waiting for ever (KIP-890). A client of transaction version 2
(Produce 12, TxnOffsetCommit 5) does not announce partitions: the question makes them part of the
transaction. For older clients it only finds out whether they are.

The leader keeps a guard for each producer that it asks about (`log/producer_state`); the append has
to come with it, so that an end in between is noticed.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kaa.coordinators.transaction.state import by_topic_in_pieces
from kaa.limits import TRANSACTION_PARTITIONS_PER_TURN_MAX
from kaa.model.pieces import mapped
from kaa.model.topics import TRANSACTION_STATE
from kaa.model.turns import in_turns
from kaa.wire.errors import Errors
from kaa.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaa.log.producer_state import VerificationGuard
    from kaa.model.pieces import Pieces
    from kaa.model.topics import PartitionName
    from kaa.replication.manager import ReplicaManager
    from kaa.serving.transactions.additions import Additions
    from kaa.serving.transactions.peers import RemoteBrokers
    from kaa.serving.view import NodeView


class TransactionOperation(Enum):
    """What a request can do, and which errors its client knows."""

    VERIFY_OLD = "verify, for clients that do not know TRANSACTION_ABORTABLE"
    VERIFY = "verify"
    ADD = "add"


def produce_operation(version: int) -> TransactionOperation:
    if version >= 12:
        return TransactionOperation.ADD
    return TransactionOperation.VERIFY if version >= 11 else TransactionOperation.VERIFY_OLD


def offset_commit_operation(version: int) -> TransactionOperation:
    if version >= 5:
        return TransactionOperation.ADD
    return TransactionOperation.VERIFY if version >= 4 else TransactionOperation.VERIFY_OLD


class Verified(NamedTuple):
    """What to append with, or why not to."""

    guards: dict[PartitionName, VerificationGuard]
    errors: dict[PartitionName, Errors]


class Verification:
    """Asks the coordinators of transactions whether a producer may write to partitions: `start`
    says for which of them a coordinator has to be asked, `finish` asks.
    """

    def __init__(
        self,
        view: NodeView,
        replicas: ReplicaManager,
        partition_for: Callable[[str], int],
        additions: Additions,
        brokers: RemoteBrokers,
    ) -> None:
        """`partition_for` gives the partition of the coordinator of a transactional id."""
        self._view = view
        self._replicas = replicas
        self._partition_for = partition_for
        self._additions = additions
        self._brokers = brokers

    def start(
        self,
        producer: tuple[int, int],
        sequences: Mapping[PartitionName, int],
        operation: TransactionOperation,
    ) -> Pieces[dict[PartitionName, VerificationGuard]]:
        """Guards for the partitions whose coordinator has to be asked; others have none."""
        guards = {}
        now_ms = self._view.clock.wall_ms()
        for count, (name, sequence) in enumerate(sequences.items(), 1):
            if count % TRANSACTION_PARTITIONS_PER_TURN_MAX == 0:
                yield
            partition = self._replicas.find(*name)
            if isinstance(partition, Errors) or not partition.is_leader:
                continue
            guard = partition.online_log().producer_state.start_verification(
                producer[0],
                sequence,
                producer[1],
                operation is TransactionOperation.ADD,
                now_ms,
            )
            if guard is not None:
                guards[name] = guard
        return guards

    async def finish(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        guards: dict[PartitionName, VerificationGuard],
        operation: TransactionOperation,
    ) -> Verified:
        """Asks the coordinator, unless nobody wants to know; waits a little for one that is still
        busy with the transaction before.
        """
        config = self._view.config
        is_enabled = config.get_boolean("transaction.partition.verification.enable")
        if not is_enabled and operation is not TransactionOperation.ADD:
            return Verified(guards, {})
        pause = config.get_int("add.partitions.to.txn.retry.backoff.ms") / 1000
        left = min(
            config.get_int("add.partitions.to.txn.retry.backoff.max.ms"),
            config.get_int("request.timeout.ms"),
        )
        deadline = self._view.loop.time() + left / 1000
        while True:
            errors = await self._ask(transactional_id, producer, frozenset(guards), operation)
            is_busy = Errors.CONCURRENT_TRANSACTIONS in errors.values()
            is_late = self._view.loop.time() >= deadline
            if operation is not TransactionOperation.ADD or not is_busy or is_late:
                return Verified(guards, errors)
            await asyncio.sleep(pause)

    async def _ask(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        names: frozenset[PartitionName],
        operation: TransactionOperation,
    ) -> dict[PartitionName, Errors]:
        """The partitions that may not be written to."""
        place = (TRANSACTION_STATE, self._partition_for(transactional_id))
        coordinator = self._brokers.leader(place)
        if coordinator is None or coordinator < 0:
            return dict.fromkeys(names, Errors.COORDINATOR_NOT_AVAILABLE)
        is_add = operation is TransactionOperation.ADD
        asked = await in_turns(_asked(transactional_id, producer, names, is_add=is_add))
        errors: Mapping[PartitionName, Errors]
        if coordinator == self._view.node_id:
            errors = await self._additions.add(asked)
        else:
            try:
                errors = await self._brokers.at(coordinator).add_partitions(asked)
            except ConnectionError:
                return dict.fromkeys(names, Errors.NETWORK_EXCEPTION)
        return {
            name: _error_for_producer(error, operation)
            for name, error in errors.items()
            if error is not Errors.NONE
        }


def _asked(
    transactional_id: str,
    producer: tuple[int, int],
    names: frozenset[PartitionName],
    *,
    is_add: bool,
) -> Pieces[AddPartitionsToTxnTransaction]:
    by_topic = yield from by_topic_in_pieces(names)
    topics = yield from mapped(
        lambda item: AddPartitionsToTxnTopic(name=item[0], partitions=item[1]), by_topic.items()
    )
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=not is_add,
        topics=topics,
    )


def _error_for_producer(error: Errors, operation: TransactionOperation) -> Errors:
    if error is Errors.PRODUCER_FENCED:
        return Errors.INVALID_PRODUCER_EPOCH
    if error is Errors.TRANSACTION_ABORTABLE and operation is TransactionOperation.VERIFY_OLD:
        return Errors.INVALID_TXN_STATE
    return error


# What may pass, and old clients do not try again; they do for too few replicas.
_RETRIED = frozenset(
    {
        Errors.NETWORK_EXCEPTION,
        Errors.COORDINATOR_LOAD_IN_PROGRESS,
        Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.NOT_COORDINATOR,
    }
)


def produce_refusal(error: Errors, operation: TransactionOperation) -> tuple[Errors, str | None]:
    """The error of a produce request, and its words."""
    if error is Errors.INVALID_TXN_STATE:
        return error, "the partition is not part of the transaction"
    is_busy = error is Errors.CONCURRENT_TRANSACTIONS and operation is not TransactionOperation.ADD
    if error in _RETRIED or is_busy:
        return (
            Errors.NOT_ENOUGH_REPLICAS,
            f"whether the partition is part of the transaction is not known yet: {error.name}",
        )
    return error, None
