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

from kaa.wire.errors import Errors
from kaa.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.coordinators.transaction.state import PartitionName
    from kaa.log.producer_state import VerificationGuard
    from kaa.serving.services import Services


class Operation(Enum):
    """What a request can do, and which errors its client knows."""

    VERIFY_OLD = "verify, for clients that do not know TRANSACTION_ABORTABLE"
    VERIFY = "verify"
    ADD = "add"


def produce_operation(version: int) -> Operation:
    if version >= 12:
        return Operation.ADD
    return Operation.VERIFY if version >= 11 else Operation.VERIFY_OLD


def offset_commit_operation(version: int) -> Operation:
    if version >= 5:
        return Operation.ADD
    return Operation.VERIFY if version >= 4 else Operation.VERIFY_OLD


class Verified(NamedTuple):
    """What to append with, or why not to."""

    guards: dict[PartitionName, VerificationGuard]
    errors: dict[PartitionName, Errors]


class Verification:
    """Asks the coordinators of transactions; see the module's text."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def start(
        self,
        producer: tuple[int, int],
        sequences: Mapping[PartitionName, int],
        operation: Operation,
    ) -> dict[PartitionName, VerificationGuard]:
        """Guards for the partitions whose coordinator has to be asked; others have none."""
        services = self._services
        guards = {}
        now_ms = services.clock.wall_ms()
        for name, sequence in sequences.items():
            partition = services.replicas.find(*name)
            if isinstance(partition, Errors) or not partition.is_leader:
                continue
            guard = partition.leader_log().producer_state.start_verification(
                producer[0], sequence, producer[1], operation is Operation.ADD, now_ms
            )
            if guard is not None:
                guards[name] = guard
        return guards

    async def finish(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        guards: dict[PartitionName, VerificationGuard],
        operation: Operation,
    ) -> Verified:
        """Asks the coordinator, unless nobody wants to know; waits a little for one that is still
        busy with the transaction before.
        """
        config = self._services.config
        is_enabled = config.get_boolean("transaction.partition.verification.enable")
        if not is_enabled and operation is not Operation.ADD:
            return Verified(guards, {})
        pause = config.get_int("add.partitions.to.txn.retry.backoff.ms") / 1000
        left = min(
            config.get_int("add.partitions.to.txn.retry.backoff.max.ms"),
            config.get_int("request.timeout.ms"),
        )
        deadline = self._services.loop.time() + left / 1000
        while True:
            errors = await self._ask(transactional_id, producer, frozenset(guards), operation)
            is_busy = Errors.CONCURRENT_TRANSACTIONS in errors.values()
            is_late = self._services.loop.time() >= deadline
            if operation is not Operation.ADD or not is_busy or is_late:
                return Verified(guards, errors)
            await asyncio.sleep(pause)

    async def _ask(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        names: frozenset[PartitionName],
        operation: Operation,
    ) -> dict[PartitionName, Errors]:
        """The partitions that may not be written to."""
        services = self._services
        coordinator = services.brokers.leader(
            ("__transaction_state", services.transactions.partition_for(transactional_id))
        )
        if coordinator is None or coordinator < 0:
            return dict.fromkeys(names, Errors.COORDINATOR_NOT_AVAILABLE)
        asked = _asked(transactional_id, producer, names, is_add=operation is Operation.ADD)
        try:
            errors = await services.brokers.port(coordinator).add_partitions(asked)
        except ConnectionError:
            return dict.fromkeys(names, Errors.NETWORK_EXCEPTION)
        return {name: _told(error, operation) for name, error in errors.items()}


def _asked(
    transactional_id: str,
    producer: tuple[int, int],
    names: frozenset[PartitionName],
    *,
    is_add: bool,
) -> AddPartitionsToTxnTransaction:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for topic, number in sorted(names):
        found = topics.setdefault(topic, AddPartitionsToTxnTopic(name=topic, partitions=[]))
        found.partitions.append(number)
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=not is_add,
        topics=list(topics.values()),
    )


def _told(error: Errors, operation: Operation) -> Errors:
    if error is Errors.PRODUCER_FENCED:
        return Errors.INVALID_PRODUCER_EPOCH
    if error is Errors.TRANSACTION_ABORTABLE and operation is Operation.VERIFY_OLD:
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


def produce_refusal(error: Errors, operation: Operation) -> tuple[Errors, str | None]:
    """The error of a produce request, and its words."""
    if error is Errors.INVALID_TXN_STATE:
        return error, "the partition is not part of the transaction"
    is_busy = error is Errors.CONCURRENT_TRANSACTIONS and operation is not Operation.ADD
    if error in _RETRIED or is_busy:
        return (
            Errors.NOT_ENOUGH_REPLICAS,
            f"whether the partition is part of the transaction is not known yet: {error.name}",
        )
    return error, None
