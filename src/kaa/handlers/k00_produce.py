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

from functools import partial
from typing import TYPE_CHECKING, Final

from kaa.handlers.once_applied import once_applied
from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX, PRODUCE_BATCHES_PER_TURN_MAX
from kaa.model.kinds import ACKS_ALL, ACKS_NONE
from kaa.model.pieces import finish
from kaa.model.turns import Turns, in_turns
from kaa.net.pending import Hold, Pending
from kaa.serving.appending import Appending, Deferred, RefusedBatch
from kaa.serving.delayed import Appended, until_replicated
from kaa.serving.leader_hints import HintedLeaders
from kaa.serving.transactions.batches import has_many_batches, has_transactional, topic_name
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
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.topics import PartitionName
    from kaa.serving.appending import Accepted, Unverified
    from kaa.serving.services import Services
    from kaa.wire.messages.k00_produce import (
        PartitionProduceData,
        ProduceRequest,
        TopicProduceData,
    )

_LEADER_HINTS_VERSION: Final = 10
_TOPIC_IDS_VERSION: Final = 13


def handle(
    services: Services, request: ProduceRequest, context: RequestContext
) -> Answer[ProduceResponse]:
    if services.replicas.has_unapplied:
        names = _names(services, request, context.header.api_version)
        serve = partial(_serve, services, request, context)
        return once_applied(services.replicas, names, serve, Hold.FRAME)
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
) -> Answer[ProduceResponse]:
    produce = _Produce(services, request, context)
    if has_many_batches(request):
        return Pending(produce.run_in_turns(), Hold.FRAME)
    if has_transactional(request):
        unverified = finish(produce.appending.unverified(request))
        if unverified is not None:
            return Pending(produce.run_verified(unverified), Hold.FRAME)
    return produce.run()


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
        self.response = ProduceResponse()
        # Made when a partition turns out to be led elsewhere.
        self.leaders: HintedLeaders | None = None
        self.accepted: list[tuple[Appended, PartitionProduceResponse]] = []
        self.deferred: list[tuple[Deferred, PartitionProduceResponse]] = []
        self.has_failed = False

    def run(self) -> Answer[ProduceResponse]:
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

    async def run_verified(self, unverified: Unverified) -> Answer[ProduceResponse]:
        await self.appending.verify(unverified)
        return self.run()

    async def run_in_turns(self) -> Answer[ProduceResponse]:
        """The same for very many batches, with turns for others in between."""
        unverified = await in_turns(self.appending.unverified(self.request))
        if unverified is not None:
            await self.appending.verify(unverified)
        turns, empty = Turns(PRODUCE_BATCHES_PER_TURN_MAX), Turns(NAMES_ANSWERED_PER_SLICE_MAX)
        for topic in self.request.topic_data:
            await empty.next()
            answers: list[PartitionProduceResponse] = []
            for data in topic.partition_data:
                if await turns.next():
                    self.appending.begin_turn()
                answers += self.partitions(topic, [data])
                # The request may be there for a while, to be freed in turns.
                data.records = None
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
            if self.appending.refusal is not None:
                self.refused(answer, self.appending.refusal)
                continue
            if self.version < _TOPIC_IDS_VERSION:
                partition = self.services.replicas.find(topic.name, data.index)
            else:
                partition = self.services.replicas.find_by_id(topic.topic_id, data.index)
            if isinstance(partition, Errors):
                name = topic_name(self.services, topic, self.version) or ""
                self.note(answer, name, RefusedBatch(partition))
                continue
            outcome = self.appending.append(partition, data.records)
            if isinstance(outcome, Deferred):
                self.deferred.append((outcome, answer))
            else:
                self.note(answer, partition.topic, outcome)
        return answers

    async def finish(self) -> Answer[ProduceResponse]:
        turns = Turns(PRODUCE_BATCHES_PER_TURN_MAX)
        for deferred, answer in self.deferred:
            await turns.next()
            outcome = await self.appending.finish(deferred)
            self.note(answer, deferred.partition.topic, outcome)
        return self.answer()

    def answer(self) -> Answer[ProduceResponse]:
        if self.request.acks == ACKS_NONE:
            if self.has_failed:
                # The producer asked for no answer; closing is how it learns, as with Kafka.
                self.connection.close("a produce with acks=0 failed")
            return None
        if self.request.acks != ACKS_ALL or not self.accepted:
            return self.response
        appended = [appended for appended, _ in self.accepted]
        loop, timeout_ms = self.services.view.loop, self.request.timeout_ms
        replicated = until_replicated(loop, appended, timeout_ms, self.replicated)
        if isinstance(replicated, ProduceResponse):
            return replicated
        # The frame may be large, and the wait long.
        self.request.topic_data, self.deferred = [], []
        return Pending(replicated, Hold.NOTHING)

    def replicated(self, outcomes: list[Errors]) -> ProduceResponse:
        for (appended, answer), error in zip(self.accepted, outcomes, strict=True):
            if error is not Errors.NONE:
                answer.error_code = error
                answer.base_offset = -1
                self.hint(answer, appended.partition.topic)
        return self.response

    # --- a partition's part of the answer

    def note(
        self, answer: PartitionProduceResponse, topic: str, outcome: Accepted | RefusedBatch
    ) -> None:
        if isinstance(outcome, RefusedBatch):
            self.refused(answer, outcome)
            self.hint(answer, topic)
            return
        partition, info = outcome
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
        self.response.node_endpoints = leaders.endpoints(NodeEndpoint)

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
