"""Produce, key 0: appends batches to partitions that this broker leads.

Each partition is judged by itself: one refused batch does not touch the others. The work is done
when `handle` returns; with acks=all the answer is parked until every accepted batch is replicated,
and with acks=0 there is none. A batch that turns out to expand to megabytes is judged by a thread
instead, and one that is large, or has to be flushed with its append, is written by a thread, so
that only its own connection waits.

======= ========================================================================================
version what is new
======= ========================================================================================
3       the first that is served; 0 to 2 are advertised for librdkafka's sake and refused
        (KAFKA-18659)
7       zstd may be used
8       errors of single records (KIP-467)
10      the current leader in answers to those who asked a wrong one (KIP-951)
12      partitions join a transaction implicitly (KIP-890)
13      topics by id (KIP-516)
======= ========================================================================================
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.handlers.context import KeepsFrame, Parked
from kaa.limits import PRODUCE_ON_LOOP_EXPANDED_BYTES_MAX, PRODUCE_ON_LOOP_WRITTEN_BYTES_MAX
from kaa.log.errors import LogError
from kaa.records.errors import WorkLimitError
from kaa.records.validate import Refusal, validate_produced
from kaa.replication.partition import Partition
from kaa.serving.delayed import Wait
from kaa.serving.transactional_batches import has_transactional, transactional_batches
from kaa.serving.verification import Verified, produce_operation, produce_refusal
from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from kaa.coordinators.transaction.state import PartitionName
    from kaa.handlers.context import RequestContext
    from kaa.log.append import AppendInfo
    from kaa.log.producer_state import VerificationGuard
    from kaa.records.validate import Validated
    from kaa.serving.services import Services
    from kaa.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData

_ACKS_NONE: Final = 0
_ACKS_LEADER: Final = 1
_ACKS_ALL: Final = -1
# Errors with which Kafka does not tell where the log starts.
_WITHOUT_START_OFFSET: Final = frozenset(
    {
        Errors.CORRUPT_MESSAGE,
        Errors.KAFKA_STORAGE_ERROR,
        Errors.MESSAGE_TOO_LARGE,
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.RECORD_LIST_TOO_LARGE,
    }
)


def handle(services: Services, request: ProduceRequest, context: RequestContext) -> Any:
    produce = _Produce(services, request.acks, context.api_version)
    if has_transactional(request):
        return _in_transaction(produce, request, context)
    return _produce(produce, request, context)


def _in_transaction(produce: _Produce, request: ProduceRequest, context: RequestContext) -> Any:
    """Appends at once where the transaction is known; otherwise its coordinator is asked."""
    services, version = produce.services, context.api_version
    batches = transactional_batches(services, request, version)
    if request.transactional_id is None:
        produce.refusal = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif len(batches.producers) > 1:
        produce.refusal = Errors.INVALID_PRODUCER_ID_MAPPING
    if produce.refusal is not None:
        return _produce(produce, request, context)
    operation = produce_operation(version)
    (producer,) = batches.producers
    guards = services.verification.start(producer, batches.sequences, operation)
    if not guards:
        return _produce(produce, request, context)
    return KeepsFrame(_verify(produce, request, context, producer, guards))


async def _verify(
    produce: _Produce,
    request: ProduceRequest,
    context: RequestContext,
    producer: tuple[int, int],
    guards: dict[PartitionName, VerificationGuard],
) -> ProduceResponse | Parked | None:
    assert request.transactional_id is not None
    operation = produce_operation(context.api_version)
    produce.verified = await produce.services.verification.finish(
        request.transactional_id, producer, guards, operation
    )
    answer = _produce(produce, request, context)
    if isinstance(answer, KeepsFrame):
        answer = await answer.response
    response: ProduceResponse | Parked | None = answer
    return response


def _produce(produce: _Produce, request: ProduceRequest, context: RequestContext) -> Any:
    # A topic without partitions is left out of the answer.
    topics = [produce.topic(topic) for topic in request.topic_data if topic.partition_data]
    response = ProduceResponse(responses=topics)
    if produce.overdue:
        return KeepsFrame(_finish(produce, request, context, response))
    return _answer(produce, request, context, response)


async def _finish(
    produce: _Produce,
    request: ProduceRequest,
    context: RequestContext,
    response: ProduceResponse,
) -> ProduceResponse | Parked | None:
    await produce.finish_overdue()
    return _answer(produce, request, context, response)


def _answer(
    produce: _Produce,
    request: ProduceRequest,
    context: RequestContext,
    response: ProduceResponse,
) -> ProduceResponse | Parked | None:
    if request.acks == _ACKS_NONE:
        if produce.has_failed:
            # The producer asked for no answer; closing is how it learns, as with Kafka.
            context.connection.close("a produce with acks=0 failed")
        return None
    waiting = [item for item in produce.appended if not item[0].is_replicated(item[1])]
    if request.acks != _ACKS_ALL or not waiting:
        return response
    return _park(produce.services, waiting, request.timeout_ms, response)


class _Overdue(NamedTuple):
    """What is too much work for the loop, with its place in the answer."""

    answers: list[PartitionProduceResponse]
    place: int
    topic: TopicProduceData
    data: PartitionProduceData
    # None if that is what takes long.
    verdict: Validated | None


class _LongWriteError(Exception):
    """The append of a judged batch should leave the loop."""

    def __init__(self, verdict: Validated) -> None:
        super().__init__()
        self.verdict = verdict


class _Produce:
    """One request's way through its partitions."""

    def __init__(self, services: Services, acks: int, version: int) -> None:
        self.services = services
        self.acks = acks
        self.version = version
        self.now_ms = services.clock.wall_ms()
        self.has_failed = False
        # Why nothing of the request is appended.
        self.refusal: Errors | None = None
        # What the coordinator said of a transaction.
        self.verified = Verified({}, {})
        # What was appended: the partition, the offset after it, and its part of the answer.
        self.appended: list[tuple[Partition, int, PartitionProduceResponse]] = []
        self.overdue: list[_Overdue] = []
        self.bytes_on_loop = 0

    def topic(self, data: TopicProduceData) -> TopicProduceResponse:
        answers: list[PartitionProduceResponse] = []
        for partition in data.partition_data:
            try:
                answers.append(self.partition(data, partition))
            except WorkLimitError:
                self.defer(answers, data, partition)
            except _LongWriteError as long:
                self.defer(answers, data, partition, long.verdict)
        return TopicProduceResponse(
            name=data.name, topic_id=data.topic_id, partition_responses=answers
        )

    def defer(
        self,
        answers: list[PartitionProduceResponse],
        topic: TopicProduceData,
        data: PartitionProduceData,
        verdict: Validated | None = None,
    ) -> None:
        self.overdue.append(_Overdue(answers, len(answers), topic, data, verdict))
        answers.append(PartitionProduceResponse(index=data.index))

    async def finish_overdue(self) -> None:
        """A request of many partitions is finished in turns of the loop: a hop to the writer's
        thread and back costs more than the append of a small batch.
        """
        services = self.services
        for answers, place, topic, data, known in self.overdue:
            size = 0 if data.records is None else len(data.records)
            if self.bytes_on_loop + size > PRODUCE_ON_LOOP_WRITTEN_BYTES_MAX:
                self.bytes_on_loop = 0
                await asyncio.sleep(0)
            verdict: Validated | Refusal | None = known
            partition = self.find(topic, data)
            if verdict is None and data.records is not None and isinstance(partition, Partition):
                rules = services.replicas.append_rules(partition)
                arguments = (data.records, self.version, rules, self.now_ms)
                verdict = await services.loop.run_in_executor(
                    services.batch_work, validate_produced, *arguments
                )
            admitted = self.admit(topic, data, verdict)
            if isinstance(admitted, PartitionProduceResponse):
                answers[place] = admitted
            elif self.is_long_write(*admitted):
                answers[place] = await self.append_later(*admitted)
            else:
                answers[place] = self.append(*admitted)

    def find(self, topic: TopicProduceData, data: PartitionProduceData) -> Partition | Errors:
        if self.version <= 12:
            return self.services.replicas.find(topic.name, data.index)
        return self.services.replicas.find_by_id(topic.topic_id, data.index)

    def partition(
        self, topic: TopicProduceData, data: PartitionProduceData
    ) -> PartitionProduceResponse:
        """Judges and appends. WorkLimitError or _LongWriteError, before anything was done, if that
        takes too long.
        """
        admitted = self.admit(topic, data)
        if isinstance(admitted, PartitionProduceResponse):
            return admitted
        partition, verdict = admitted
        if self.is_long_write(partition, verdict):
            raise _LongWriteError(verdict)
        return self.append(partition, verdict)

    def append(self, partition: Partition, verdict: Validated) -> PartitionProduceResponse:
        try:
            info = partition.append(
                _stamped(verdict), now_ms=self.now_ms, guard=self.guard(partition)
            )
        except LogError as error:
            return self.failed(partition, error.error)
        return self.accepted(partition, info)

    def is_long_write(self, partition: Partition, verdict: Validated) -> bool:
        log, batch = partition.leader_log(), verdict.batch
        if log.directory.writer is None:
            return False
        self.bytes_on_loop += batch.size_in_bytes
        return (
            log.pending is not None
            # With group commit flushes are always under way, and a write to a file waits for its.
            or partition.appended is not None
            or self.bytes_on_loop > PRODUCE_ON_LOOP_WRITTEN_BYTES_MAX
            or log.flushes_at(log.log_end_offset + batch.last_offset_delta + 1)
        )

    async def append_later(
        self, partition: Partition, verdict: Validated
    ) -> PartitionProduceResponse:
        try:
            batch, guard = _stamped(verdict), self.guard(partition)
            if partition.leader_log().directory.writer is None:
                info = partition.append(batch, now_ms=self.now_ms, guard=guard)
            else:
                info = await partition.append_later(batch, now_ms=self.now_ms, guard=guard)
        except LogError as error:
            return self.failed(partition, error.error)
        return self.accepted(partition, info)

    def admit(
        self,
        topic: TopicProduceData,
        data: PartitionProduceData,
        verdict: Validated | Refusal | None = None,
    ) -> tuple[Partition, Validated] | PartitionProduceResponse:
        """Where a batch goes and what was found about it, or why it is refused."""
        if self.acks not in {_ACKS_NONE, _ACKS_LEADER, _ACKS_ALL}:
            return self.refused(data.index, Errors.INVALID_REQUIRED_ACKS)
        if self.refusal is not None:
            return self.refused(data.index, self.refusal)
        partition = self.find(topic, data)
        if isinstance(partition, Errors):
            return self.refused(data.index, partition)
        if not partition.is_leader:
            return self.not_leader(partition)
        replicas = self.services.replicas
        if data.records is None:
            return self.refused(data.index, Errors.INVALID_RECORD)
        if replicas.is_internal(partition.topic):
            return self.refused(data.index, Errors.INVALID_TOPIC_EXCEPTION)
        if self.acks == _ACKS_ALL and not replicas.has_enough_replicas(partition):
            return self.refused(data.index, Errors.NOT_ENOUGH_REPLICAS)
        if verdict is None:
            verdict = validate_produced(
                data.records,
                self.version,
                replicas.append_rules(partition),
                self.now_ms,
                PRODUCE_ON_LOOP_EXPANDED_BYTES_MAX,
            )
        if isinstance(verdict, Refusal):
            return self.invalid(data.index, partition, verdict)
        error = self.verified.errors.get((partition.topic, partition.number))
        if error is not None:
            told = produce_refusal(error, produce_operation(self.version))
            return self.refused(data.index, *told)
        return partition, verdict

    def guard(self, partition: Partition) -> VerificationGuard | None:
        return self.verified.guards.get((partition.topic, partition.number))

    def accepted(self, partition: Partition, info: AppendInfo) -> PartitionProduceResponse:
        response = PartitionProduceResponse(
            index=partition.number,
            base_offset=info.first_offset,
            log_append_time_ms=info.log_append_time_ms,
            log_start_offset=info.log_start_offset,
        )
        self.appended.append((partition, info.last_offset + 1, response))
        return response

    def refused(
        self, index: int, error: Errors, message: str | None = None
    ) -> PartitionProduceResponse:
        self.has_failed = True
        return PartitionProduceResponse(
            index=index, error_code=error, base_offset=-1, error_message=message
        )

    def failed(self, partition: Partition, error: Errors) -> PartitionProduceResponse:
        """Refused by the log, without words, as Kafka does it."""
        response = self.refused(partition.number, error)
        if partition.log is not None and error not in _WITHOUT_START_OFFSET:
            response.log_start_offset = partition.log.log_start_offset
        return response

    def invalid(
        self, index: int, partition: Partition, refusal: Refusal
    ) -> PartitionProduceResponse:
        response = self.refused(index, refusal.error, refusal.message)
        if partition.log is not None and refusal.record_errors:
            response.log_start_offset = partition.log.log_start_offset
        response.record_errors = [
            BatchIndexAndErrorMessage(
                batch_index=error.batch_index, batch_index_error_message=error.message
            )
            for error in refusal.record_errors
        ]
        return response

    def not_leader(self, partition: Partition) -> PartitionProduceResponse:
        response = self.refused(partition.number, Errors.NOT_LEADER_OR_FOLLOWER)
        if self.version >= 10:
            response.current_leader = LeaderIdAndEpoch(
                leader_id=partition.image.leader, leader_epoch=partition.leader_epoch
            )
        return response


def _stamped(verdict: Validated) -> memoryview:
    """The batch with what validation found out about it."""
    verdict.batch.set_max_timestamp(verdict.timestamp_type, verdict.max_timestamp)
    return verdict.batch.view


def _park(
    services: Services,
    waiting: list[tuple[Partition, int, PartitionProduceResponse]],
    timeout_ms: int,
    response: ProduceResponse,
) -> Parked:
    """The response, once every batch is replicated, or never will be, or time is up."""

    def is_done() -> bool:
        return all(
            partition.is_replicated(offset) or not partition.is_leader
            for partition, offset, _ in waiting
        )

    def respond(_: asyncio.Future[bool]) -> ProduceResponse:
        for partition, offset, part in waiting:
            if partition.is_replicated(offset):
                continue
            part.error_code = (
                Errors.REQUEST_TIMED_OUT if partition.is_leader else Errors.NOT_LEADER_OR_FOLLOWER
            )
            part.base_offset = -1
        return response

    wait = Wait(services.loop, [item[0] for item in waiting], timeout_ms, is_done)
    return Parked(wait.done, respond)
