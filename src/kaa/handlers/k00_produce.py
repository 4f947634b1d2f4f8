"""Produce, key 0: appends batches to partitions that this broker leads.

Each partition is judged by itself: one refused batch does not touch the others. The work is done
when `handle` returns; with acks=all the answer is parked until every accepted batch is replicated,
and with acks=0 there is none. A batch that turns out to expand to megabytes is judged by a thread
instead, so that only its own connection waits.

| version | | |---|---| | 3 | the first that is served; 0 to 2 are advertised for librdkafka's sake
and refused (KAFKA-18659) | | 7 | zstd may be used | | 8 | errors of single records (KIP-467) | | 10
| the current leader in answers to those who asked a wrong one (KIP-951) | | 12 | partitions join a
transaction implicitly (KIP-890) | | 13 | topics by id (KIP-516) |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.handlers.context import KeepsFrame, Parked
from kaa.limits import PRODUCE_ON_LOOP_EXPANDED_BYTES_MAX
from kaa.log.errors import LogError
from kaa.records.errors import WorkLimitError
from kaa.records.validate import Refusal, validate_produced
from kaa.serving.delayed import Wait
from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    import asyncio

    from kaa.handlers.context import RequestContext
    from kaa.log.append import AppendInfo
    from kaa.records.validate import Validated
    from kaa.replication.partition import Partition
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
) -> ProduceResponse | None:
    await produce.finish_overdue()
    answer = _answer(produce, request, context, response)
    return await answer.response if isinstance(answer, Parked) else answer


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
    return Parked(_park(produce.services, waiting, request.timeout_ms, response))


class _Produce:
    """One request's way through its partitions."""

    def __init__(self, services: Services, acks: int, version: int) -> None:
        self.services = services
        self.acks = acks
        self.version = version
        self.now_ms = services.clock.wall_ms()
        self.has_failed = False
        # What was appended: the partition, the offset after it, and its part of the answer.
        self.appended: list[tuple[Partition, int, PartitionProduceResponse]] = []
        # What is too much work for the loop, with its place in the answer.
        self.overdue: list[
            tuple[list[PartitionProduceResponse], int, TopicProduceData, PartitionProduceData]
        ] = []

    def topic(self, data: TopicProduceData) -> TopicProduceResponse:
        answers: list[PartitionProduceResponse] = []
        for partition in data.partition_data:
            try:
                answers.append(self.partition(data, partition))
            except WorkLimitError:
                self.overdue.append((answers, len(answers), data, partition))
                answers.append(PartitionProduceResponse(index=partition.index))
        return TopicProduceResponse(
            name=data.name, topic_id=data.topic_id, partition_responses=answers
        )

    async def finish_overdue(self) -> None:
        services = self.services
        for answers, place, topic, data in self.overdue:
            verdict, partition = None, self.find(topic, data)
            if data.records is not None and not isinstance(partition, Errors):
                rules = services.replicas.append_rules(partition)
                arguments = (data.records, self.version, rules, self.now_ms)
                verdict = await services.loop.run_in_executor(
                    services.batch_work, validate_produced, *arguments
                )
            answers[place] = self.partition(topic, data, verdict)

    def find(self, topic: TopicProduceData, data: PartitionProduceData) -> Partition | Errors:
        if self.version <= 12:
            return self.services.replicas.find(topic.name, data.index)
        return self.services.replicas.find_by_id(topic.topic_id, data.index)

    def partition(
        self,
        topic: TopicProduceData,
        data: PartitionProduceData,
        verdict: Validated | Refusal | None = None,
    ) -> PartitionProduceResponse:
        """Judges and appends; WorkLimitError, before anything was done, if that takes too long.
        With a verdict it only appends.
        """
        if self.acks not in {_ACKS_NONE, _ACKS_LEADER, _ACKS_ALL}:
            return self.refused(data.index, Errors.INVALID_REQUIRED_ACKS)
        found = self.find(topic, data)
        if isinstance(found, Errors):
            return self.refused(data.index, found)
        if not found.is_leader:
            return self.not_leader(found)
        return self.append(found, data, verdict)

    def append(
        self,
        partition: Partition,
        data: PartitionProduceData,
        verdict: Validated | Refusal | None,
    ) -> PartitionProduceResponse:
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
        batch = verdict.batch
        batch.set_max_timestamp(verdict.timestamp_type, verdict.max_timestamp)
        try:
            info = partition.append(batch.view, now_ms=self.now_ms)
        except LogError as error:
            return self.failed(partition, error.error)
        return self.accepted(partition, info)

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


def _park(
    services: Services,
    waiting: list[tuple[Partition, int, PartitionProduceResponse]],
    timeout_ms: int,
    response: ProduceResponse,
) -> asyncio.Future[ProduceResponse]:
    """The response, once every batch is replicated, or never will be, or time is up."""

    def is_done() -> bool:
        return all(
            partition.is_replicated(offset) or not partition.is_leader
            for partition, offset, _ in waiting
        )

    answer: asyncio.Future[ProduceResponse] = services.loop.create_future()

    def finish(_: asyncio.Future[bool]) -> None:
        for partition, offset, part in waiting:
            if partition.is_replicated(offset):
                continue
            part.error_code = (
                Errors.REQUEST_TIMED_OUT if partition.is_leader else Errors.NOT_LEADER_OR_FOLLOWER
            )
            part.base_offset = -1
        if not answer.done():
            answer.set_result(response)

    wait = Wait(services.loop, [item[0] for item in waiting], timeout_ms, is_done)
    wait.done.add_done_callback(finish)
    return answer
