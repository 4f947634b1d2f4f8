"""Produce, key 0: appends batches to partitions that this broker leads.

Each partition is judged by itself: one refused batch does not touch the others. The work is done
when `handle` returns (`serving/appending`); with acks=all the answer is parked until every accepted
batch is replicated, and with acks=0 there is none. Where work leaves the loop, or the coordinator
of a transaction is asked first, or there are very many batches, the request keeps its frame, and
only its own connection waits.

| version | what is new |
|---|---|
| 3 | the first that is served; 0 to 2 are advertised for librdkafka, and refused (KAFKA-18659) |
| 7 | zstd may be used |
| 8 | errors of single records (KIP-467) |
| 10 | the current leader in answers to those who asked a wrong one (KIP-951) |
| 12 | partitions join a transaction implicitly (KIP-890) |
| 13 | topics by id (KIP-516) |
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from kaa.handlers.settling import once_settled
from kaa.limits import PRODUCE_BATCHES_PER_TURN_MAX, REPLICATION_LOOKS_PER_TURN_MAX
from kaa.model.kinds import ACKS_ALL
from kaa.model.pieces import finish
from kaa.net.pending import Hold, Pending
from kaa.serving.appending import Appending, Deferred, RefusedBatch
from kaa.serving.delayed import Appended, until_all_replicated, until_replicated
from kaa.serving.leader_hints import HintedLeaders
from kaa.serving.transactions.batches import (
    has_many_batches,
    has_transactional,
    topic_name,
    transactional_batches,
)
from kaa.serving.transactions.verification import produce_operation
from kaa.serving.turns import Turns, in_turns
from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from kaa.coordinators.transaction.state import PartitionName
    from kaa.handlers.context import Answer, RequestContext
    from kaa.log.producer_state import VerificationGuard
    from kaa.replication.partition import Partition
    from kaa.serving.appending import Accepted
    from kaa.serving.services import Services
    from kaa.serving.transactions.batches import TransactionalBatches
    from kaa.wire.messages.k00_produce import (
        PartitionProduceData,
        ProduceRequest,
        TopicProduceData,
    )

_ACKS_NONE: Final = 0
_ACKS_LEADER: Final = 1
_ACKS: Final = frozenset({_ACKS_NONE, _ACKS_LEADER, ACKS_ALL})
_LEADER_HINTS_VERSION: Final = 10
_TOPIC_IDS_VERSION: Final = 13


def handle(
    services: Services, request: ProduceRequest, context: RequestContext
) -> Answer[ProduceResponse] | None:
    if services.replicas.is_settling:
        names = _names(services, request, context.header.api_version)
        serve = partial(_serve, services, request, context)
        return once_settled(services.replicas, names, serve, Hold.FRAME)
    return _serve(services, request, context)


def _names(services: Services, request: ProduceRequest, version: int) -> list[PartitionName]:
    return [
        (name, data.index)
        for topic in request.topic_data
        if (name := topic_name(services, topic, version)) is not None
        for data in topic.partition_data
    ]


def _serve(
    services: Services, request: ProduceRequest, context: RequestContext
) -> Answer[ProduceResponse] | None:
    produce = _Produce(services, request, context)
    if request.acks not in _ACKS:
        produce.refusal = RefusedBatch(Errors.INVALID_REQUIRED_ACKS)
    if has_many_batches(request):
        return Pending(_in_turns(produce), Hold.FRAME)
    if produce.refusal is None and has_transactional(request):
        return _in_transaction(produce)
    return produce.run()


def _in_transaction(produce: _Produce) -> Answer[ProduceResponse] | None:
    """Appends at once where the transaction is known; otherwise its coordinator is asked."""
    services, request, version = produce.services, produce.request, produce.version
    batches = finish(transactional_batches(services, request, version))
    producer = produce.producer(batches)
    if producer is None:
        return produce.run()
    operation = produce_operation(version)
    guards = finish(services.verification.start(producer, batches.sequences, operation))
    if not guards:
        return produce.run()
    return Pending(_verify(produce, producer, guards), Hold.FRAME)


async def _verify(
    produce: _Produce,
    producer: tuple[int, int],
    guards: dict[PartitionName, VerificationGuard],
) -> Answer[ProduceResponse] | None:
    await produce.verify(producer, guards)
    return produce.run()


async def _in_turns(produce: _Produce) -> Answer[ProduceResponse] | None:
    """The same for very many batches, with turns for others in between."""
    services, request, version = produce.services, produce.request, produce.version
    if produce.refusal is None and has_transactional(request):
        batches = await in_turns(transactional_batches(services, request, version))
        producer = produce.producer(batches)
        if producer is not None:
            operation = produce_operation(version)
            guards = await in_turns(
                services.verification.start(producer, batches.sequences, operation)
            )
            if guards:
                await produce.verify(producer, guards)
    return await produce.run_in_turns()


class _Produce:
    """One request's way to its answer."""

    def __init__(
        self, services: Services, request: ProduceRequest, context: RequestContext
    ) -> None:
        self.services = services
        self.request = request
        self.connection = context.connection
        self.version = version = context.header.api_version
        now_ms = services.view.clock.wall_ms()
        self.appending = Appending(services, request.acks, version, now_ms)
        # Why nothing of the request is appended.
        self.refusal: RefusedBatch | None = None
        self.response = ProduceResponse()
        # Made when a partition turns out to be led elsewhere.
        self.leaders: HintedLeaders | None = None
        self.accepted: list[tuple[Appended, PartitionProduceResponse]] = []
        self.deferred: list[tuple[Deferred, PartitionProduceResponse]] = []
        self.has_failed = False

    def producer(self, batches: TransactionalBatches) -> tuple[int, int] | None:
        """Whose transaction it is; None if nothing of the request is appended."""
        if self.request.transactional_id is None:
            self.refusal = RefusedBatch(Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return None
        if len(batches.producers) > 1:
            self.refusal = RefusedBatch(Errors.INVALID_PRODUCER_ID_MAPPING)
            return None
        (producer,) = batches.producers
        return producer

    async def verify(
        self, producer: tuple[int, int], guards: dict[PartitionName, VerificationGuard]
    ) -> None:
        """Asks the coordinator whether the partitions are part of the transaction."""
        transactional_id = self.request.transactional_id
        assert transactional_id is not None
        self.appending.verified = await self.services.verification.finish(
            transactional_id, producer, guards, produce_operation(self.version)
        )

    def run(self) -> Answer[ProduceResponse] | None:
        # A topic without partitions is left out of the answer.
        self.response.responses = [
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=self.partitions(topic, topic.partition_data),
            )
            for topic in self.request.topic_data
            if topic.partition_data
        ]
        return Pending(self.finish(), Hold.FRAME) if self.deferred else self.answer()

    async def run_in_turns(self) -> Answer[ProduceResponse] | None:
        turns = Turns(PRODUCE_BATCHES_PER_TURN_MAX)
        for topic in self.request.topic_data:
            answers: list[PartitionProduceResponse] = []
            for data in topic.partition_data:
                if await turns.next():
                    self.appending.begin_turn()
                answers += self.partitions(topic, [data])
            if answers:
                self.response.responses.append(
                    TopicProduceResponse(
                        name=topic.name, topic_id=topic.topic_id, partition_responses=answers
                    )
                )
        return await self.finish()

    def partitions(
        self, topic: TopicProduceData, partition_data: list[PartitionProduceData]
    ) -> list[PartitionProduceResponse]:
        answers: list[PartitionProduceResponse] = []
        for data in partition_data:
            answer = PartitionProduceResponse(index=data.index)
            answers.append(answer)
            if self.refusal is not None:
                self.refused(answer, self.refusal)
                continue
            if self.version < _TOPIC_IDS_VERSION:
                partition = self.services.replicas.find(topic.name, data.index)
            else:
                partition = self.services.replicas.find_by_id(topic.topic_id, data.index)
            if isinstance(partition, Errors):
                self.refused(answer, RefusedBatch(partition))
                known = self.services.image.topics_by_id.get(topic.topic_id)
                self.hint(answer, topic.name if known is None else known.name)
                continue
            outcome = self.appending.append(partition, data.records)
            if isinstance(outcome, Deferred):
                self.deferred.append((outcome, answer))
            else:
                self.tell(answer, partition, outcome)
        return answers

    async def finish(self) -> Answer[ProduceResponse] | None:
        turns = Turns(PRODUCE_BATCHES_PER_TURN_MAX)
        for deferred, answer in self.deferred:
            await turns.next()
            self.tell(answer, deferred.partition, await self.appending.finish(deferred))
        return self.answer()

    def answer(self) -> Answer[ProduceResponse] | None:
        if self.request.acks == _ACKS_NONE:
            if self.has_failed:
                # The producer asked for no answer; closing is how it learns, as with Kafka.
                self.connection.close("a produce with acks=0 failed")
            return None
        if self.request.acks != ACKS_ALL or not self.accepted:
            return self.response
        appended = [appended for appended, _ in self.accepted]
        if len(appended) > REPLICATION_LOOKS_PER_TURN_MAX:
            return Pending(self.all_replicated(appended), Hold.NOTHING)
        loop, timeout_ms = self.services.view.loop, self.request.timeout_ms
        replicated = until_replicated(loop, appended, timeout_ms, self.replicated)
        if isinstance(replicated, ProduceResponse):
            return replicated
        return Pending(replicated, Hold.NOTHING)

    async def all_replicated(self, appended: list[Appended]) -> ProduceResponse:
        loop, timeout_ms = self.services.view.loop, self.request.timeout_ms
        outcomes = await until_all_replicated(loop, appended, timeout_ms)
        await asyncio.sleep(0)
        response = self.replicated(outcomes)
        # To forget all that the request brought takes its time too.
        await asyncio.sleep(0)
        return response

    def replicated(self, outcomes: list[Errors]) -> ProduceResponse:
        for (appended, answer), error in zip(self.accepted, outcomes, strict=True):
            if error is not Errors.NONE:
                answer.error_code = error
                answer.base_offset = -1
                self.hint(answer, appended.partition.topic)
        return self.response

    # --- a partition's part of the answer

    def tell(
        self,
        answer: PartitionProduceResponse,
        partition: Partition,
        outcome: Accepted | RefusedBatch,
    ) -> None:
        if isinstance(outcome, RefusedBatch):
            self.refused(answer, outcome)
            self.hint(answer, partition.topic)
            return
        info = outcome.info
        answer.base_offset = info.first_offset
        answer.log_append_time_ms = info.log_append_time_ms
        answer.log_start_offset = info.log_start_offset
        appended = Appended(partition, info.last_offset + 1, info.last_leader_epoch)
        self.accepted.append((appended, answer))

    def hint(self, answer: PartitionProduceResponse, topic: str) -> None:
        """Names the leader, if it is another broker."""
        if (
            answer.error_code != Errors.NOT_LEADER_OR_FOLLOWER
            or self.version < _LEADER_HINTS_VERSION
        ):
            return
        leaders = self.leaders
        if leaders is None:
            listener_name = self.connection.listener_name
            leaders = self.leaders = HintedLeaders(self.services, listener_name)
        hint = leaders.hint(topic, answer.index)
        answer.current_leader = LeaderIdAndEpoch(
            leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
        )
        self.response.node_endpoints = [
            NodeEndpoint(
                node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )
            for broker, endpoint in leaders.found.values()
        ]

    def refused(self, answer: PartitionProduceResponse, refusal: RefusedBatch) -> None:
        self.has_failed = True
        answer.error_code = refusal.error
        answer.base_offset = -1
        answer.error_message = refusal.message
        answer.log_start_offset = refusal.log_start_offset
        answer.record_errors = [
            BatchIndexAndErrorMessage(
                batch_index=error.batch_index, batch_index_error_message=error.message
            )
            for error in refusal.record_errors
        ]
