"""Appends of clients to the partitions that this broker leads.

Each batch is judged by itself, where it lies in the receive buffer, and appended by the leader
(`replication/partition`); before, the coordinator of a transaction that opens here is asked
(`serving/transactions`). What would hold the loop for too long is deferred: a batch that turns out
to expand to megabytes is judged by a thread, and one that is large, or has to be flushed with its
append, is written by the thread of its directory.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.limits import PRODUCE_ON_LOOP_EXPANDED_BYTES_MAX, PRODUCE_ON_LOOP_WRITTEN_BYTES_MAX
from kaa.log.append import BY_CLIENT, AppendSource
from kaa.log.errors import LogError
from kaa.model.kinds import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from kaa.model.topics import INTERNAL_TOPICS, NO_OFFSET
from kaa.records.errors import WorkLimitError
from kaa.records.validate import Validated, validate_produced
from kaa.serving.transactions.batches import transactional_batches
from kaa.serving.transactions.verification import Verified, produce_operation, produce_refusal
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from kaa.log.append import AppendInfo
    from kaa.log.producer_state import VerificationGuard
    from kaa.model.pieces import Pieces
    from kaa.model.topics import PartitionName
    from kaa.records.validate import RecordError, Refusal
    from kaa.replication.partition import Partition
    from kaa.serving.services import Services
    from kaa.wire.messages.k00_produce import ProduceRequest

_ACKS: Final = frozenset({ACKS_NONE, ACKS_LEADER, ACKS_ALL})
# Errors of the log with which Kafka does not say where the log starts.
_WITHOUT_START_OFFSET: Final = frozenset(
    {
        Errors.CORRUPT_MESSAGE,
        Errors.KAFKA_STORAGE_ERROR,
        Errors.MESSAGE_TOO_LARGE,
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.RECORD_LIST_TOO_LARGE,
    }
)


class Accepted(NamedTuple):
    """A batch that is in the log."""

    partition: Partition
    info: AppendInfo


class RefusedBatch(NamedTuple):
    """Why a batch is not in the log."""

    error: Errors
    message: str | None = None
    record_errors: tuple[RecordError, ...] = ()
    log_start_offset: int = NO_OFFSET


class Deferred(NamedTuple):
    """A batch that is too much work for the loop; nothing has been done with it."""

    partition: Partition
    records: memoryview
    # None if it is the judging that takes long.
    verdict: Validated | None = None


class Unverified(NamedTuple):
    """A producer whose transaction this broker does not know on these partitions."""

    transactional_id: str
    producer: tuple[int, int]
    guards: dict[PartitionName, VerificationGuard]


class Appending:
    """The appends of one request."""

    def __init__(self, services: Services, required_acks: int, version: int, now_ms: int) -> None:
        self._services = services
        self._required_acks = required_acks
        self._version = version
        self._now_ms = now_ms
        self._bytes_on_loop = 0
        # What the coordinator of the transaction said.
        self.verified = Verified({}, {})
        # Why nothing of the request is appended.
        self.refusal: RefusedBatch | None = None
        if required_acks not in _ACKS:
            self.refusal = RefusedBatch(Errors.INVALID_REQUIRED_ACKS)

    def unverified(self, request: ProduceRequest) -> Pieces[Unverified | None]:
        """What the coordinator has to be asked before transactional batches of the request are
        appended; None if nothing, or if nothing of the request is.
        """
        if self.refusal is not None:
            return None
        batches = yield from transactional_batches(self._services, request, self._version)
        if not batches.producers:
            return None
        if request.transactional_id is None:
            self.refusal = RefusedBatch(Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return None
        if len(batches.producers) > 1:
            self.refusal = RefusedBatch(Errors.INVALID_PRODUCER_ID_MAPPING)
            return None
        (producer,) = batches.producers
        operation = produce_operation(self._version)
        guards = yield from self._services.verification.start(
            producer, batches.sequences, operation
        )
        return Unverified(request.transactional_id, producer, guards) if guards else None

    async def verify(self, unverified: Unverified) -> None:
        """Asks the coordinator whether the partitions are part of the transaction."""
        self.verified = await self._services.verification.finish(
            *unverified, produce_operation(self._version)
        )

    def begin_turn(self) -> None:
        """What was written before was written in another turn of the loop."""
        self._bytes_on_loop = 0

    def append(
        self, partition: Partition, records: memoryview | None
    ) -> Accepted | RefusedBatch | Deferred:
        """Judges a batch and appends it, if that is quick."""
        admitted = self._admit(partition, records)
        if isinstance(admitted, RefusedBatch):
            return admitted
        try:
            verdict = validate_produced(
                admitted,
                self._version,
                self._services.replicas.rules(partition.topic).append,
                self._now_ms,
                PRODUCE_ON_LOOP_EXPANDED_BYTES_MAX,
            )
        except WorkLimitError:
            return Deferred(partition, admitted)
        if not isinstance(verdict, Validated):
            return _invalid(partition, verdict)
        if self.verified.errors:
            unverified = self._verification_refusal(partition)
            if unverified is not None:
                return unverified
        self._bytes_on_loop += verdict.batch.size_in_bytes
        if self._is_long_write(partition, verdict):
            return Deferred(partition, admitted, verdict)
        return self._write(partition, verdict)

    async def finish(self, deferred: Deferred) -> Accepted | RefusedBatch:
        """Does what was deferred. Batches are finished in turns of the loop: a hop to the writer's
        thread and back costs more than the append of a small batch.
        """
        partition, records, verdict = deferred
        services = self._services
        if self._bytes_on_loop + len(records) > PRODUCE_ON_LOOP_WRITTEN_BYTES_MAX:
            await asyncio.sleep(0)
            self.begin_turn()
        if verdict is None:
            rules = services.replicas.rules(partition.topic).append
            judged = await services.loop.run_in_executor(
                services.batch_work, validate_produced, records, self._version, rules, self._now_ms
            )
            if not isinstance(judged, Validated):
                return _invalid(partition, judged)
            verdict = judged
        admitted = self._admit(partition, records)
        if isinstance(admitted, RefusedBatch):
            return admitted
        unverified = self._verification_refusal(partition)
        if unverified is not None:
            return unverified
        self._bytes_on_loop += verdict.batch.size_in_bytes
        if self._is_long_write(partition, verdict):
            return await self._write_later(partition, verdict)
        return self._write(partition, verdict)

    def _admit(self, partition: Partition, records: memoryview | None) -> memoryview | RefusedBatch:
        """The records, if the partition may be written to now."""
        if records is None:
            return RefusedBatch(Errors.INVALID_RECORD)
        if partition.topic in INTERNAL_TOPICS:
            return RefusedBatch(Errors.INVALID_TOPIC_EXCEPTION)
        error = partition.append_refusal(self._required_acks)
        return records if error is None else RefusedBatch(error)

    def _is_long_write(self, partition: Partition, verdict: Validated) -> bool:
        log = partition.online_log()
        if log.directory.writer is None:
            return False
        return (
            partition.is_append_long
            or self._bytes_on_loop > PRODUCE_ON_LOOP_WRITTEN_BYTES_MAX
            or log.flushes_at(log.log_end_offset + verdict.batch.last_offset_delta + 1)
        )

    def _write(self, partition: Partition, verdict: Validated) -> Accepted | RefusedBatch:
        try:
            info = partition.append(
                verdict.stamped,
                now_ms=self._now_ms,
                required_acks=self._required_acks,
                source=self._source(partition),
            )
        except LogError as error:
            return _failed(partition, error.error)
        return Accepted(partition, info)

    async def _write_later(
        self, partition: Partition, verdict: Validated
    ) -> Accepted | RefusedBatch:
        try:
            info = await partition.append_later(
                verdict.stamped,
                now_ms=self._now_ms,
                required_acks=self._required_acks,
                source=self._source(partition),
            )
        except LogError as error:
            return _failed(partition, error.error)
        return Accepted(partition, info)

    def _source(self, partition: Partition) -> AppendSource:
        guard = self.verified.guards.get((partition.topic, partition.number))
        return BY_CLIENT if guard is None else AppendSource(guard=guard)

    def _verification_refusal(self, partition: Partition) -> RefusedBatch | None:
        """Why the transaction may not write to the partition."""
        error = self.verified.errors.get((partition.topic, partition.number))
        if error is None:
            return None
        return RefusedBatch(*produce_refusal(error, produce_operation(self._version)))


def _invalid(partition: Partition, refusal: Refusal) -> RefusedBatch:
    log_start_offset = NO_OFFSET
    if partition.log is not None and refusal.record_errors:
        log_start_offset = partition.log.log_start_offset
    return RefusedBatch(refusal.error, refusal.message, refusal.record_errors, log_start_offset)


def _failed(partition: Partition, error: Errors) -> RefusedBatch:
    """Refused by the log, without words, as Kafka does it."""
    if partition.log is None or error in _WITHOUT_START_OFFSET:
        return RefusedBatch(error)
    return RefusedBatch(error, log_start_offset=partition.log.log_start_offset)
