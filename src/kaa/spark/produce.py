"""Finished record batches to the leaders of their partitions.

A task encodes its rows itself (`kaa.records.arrow_encode`), so that what is left is to send each
batch until its leader has it. Batches of one partition stay in order: they go out over one
connection, several at a time; when one of them fails in a way that may pass, all that were not
taken are sent again in their order, once everything under way is answered. Sequence numbers make
that safe: a broker drops what it has already, and refuses what comes before its turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.client.errors import ClientError, KafkaError, RequestTimeoutError
from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kaa.wire.primitives import UUID_ZERO
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.client.cluster import Cluster
    from kaa.client.connection import Connection
    from kaa.config.definition import ConfigValues
    from kaa.model.topics import TopicPartition

# The first version of Produce that names topics by their ids alone.
_TOPIC_ID_VERSION: Final = 13
# The last one in which partitions are added to a transaction by a request of their own.
_TRANSACTION_VERSION_1: Final = 11
# What stands around the batches in a request, at most.
_REQUEST_OVERHEAD_BYTES: Final = 1024
_REFRESHES: Final = frozenset(
    {
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.LEADER_NOT_AVAILABLE,
        Errors.FENCED_LEADER_EPOCH,
        Errors.UNKNOWN_LEADER_EPOCH,
        Errors.KAFKA_STORAGE_ERROR,
    }
)


class Outgoing(NamedTuple):
    """One batch and where it goes."""

    partition: TopicPartition
    data: memoryview


class TaskSender:
    """Sends the batches of one task to their leaders. Its methods run on the loop of the
    connections.
    """

    def __init__(
        self, cluster: Cluster, values: ConfigValues, transactional_id: str | None = None
    ) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._acks = int(values.get_string("acks"))
        self._timeout_ms = values.get_int("request.timeout.ms")
        self._delivery_timeout_ms = values.get_int("delivery.timeout.ms")
        self._in_flight_max = values.get_int("max.in.flight.requests.per.connection")
        self._request_bytes_max = values.get_int("max.request.size")

    async def deliver(self, batches: list[Outgoing]) -> None:
        """Returns when every batch is where it should be; raises ClientError if one cannot."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._delivery_timeout_ms / 1000
        backoff = self._cluster.backoff()
        left = batches
        while left:
            left, failure = await self._attempt(left)
            if failure is None:
                continue
            pause = backoff.next_ms() / 1000
            if not failure.retriable or loop.time() + pause >= deadline:
                raise failure
            await asyncio.sleep(pause)
            if isinstance(failure, KafkaError) and failure.error not in _REFRESHES:
                continue
            for topic in {one.partition.topic for one in left}:
                self._cluster.metadata.forget(topic)

    async def _attempt(self, batches: list[Outgoing]) -> tuple[list[Outgoing], ClientError | None]:
        """Sends everything once; gives what was not taken, in order, and why."""
        by_leader: dict[int, list[Outgoing]] = {}
        try:
            for topic in {one.partition.topic for one in batches}:
                await self._cluster.topic(topic, self._timeout_ms, create=True)
            for one in batches:
                by_leader.setdefault(self._cluster.leader_or_raise(*one.partition), []).append(one)
        except ClientError as error:
            return batches, error
        outcomes = await asyncio.gather(
            *(self._send_to(leader, some) for leader, some in by_leader.items())
        )
        left = [one for some, _ in outcomes for one in some]
        failures = [failure for _, failure in outcomes if failure is not None]
        # What cannot pass is worth more than what can.
        failures.sort(key=lambda failure: failure.retriable)
        return left, failures[0] if failures else None

    async def _send_to(
        self, leader: int, batches: list[Outgoing]
    ) -> tuple[list[Outgoing], ClientError | None]:
        try:
            connection = await self._cluster.connection(leader)
        except ClientError as error:
            return batches, error
        waiting = deque(self._requests(batches))
        under_way: deque[tuple[list[Outgoing], asyncio.Future[Any]]] = deque()
        left: list[Outgoing] = []
        failure: ClientError | None = None
        while waiting or under_way:
            if waiting and failure is None and len(under_way) < self._in_flight_max:
                some = waiting.popleft()
                try:
                    under_way.append((some, self._send(connection, some)))
                except ClientError as error:
                    left, failure = left + some, error
                continue
            if not under_way:
                break
            some, future = under_way.popleft()
            failed, reason = await self._outcome(some, future, connection.address, bool(left))
            left += failed
            failure = failure or reason
        for some in waiting:
            left += some
        return left, failure

    def _requests(self, batches: Iterable[Outgoing]) -> list[list[Outgoing]]:
        """A request holds one batch of a partition at most, and so many bytes."""
        requests: list[list[Outgoing]] = []
        sizes: list[int] = []
        next_request: dict[TopicPartition, int] = {}
        for one in batches:
            number = next_request.get(one.partition, 0)
            while (
                number < len(requests) and sizes[number] + len(one.data) > self._request_bytes_max
            ):
                number += 1
            if number == len(requests):
                requests.append([])
                sizes.append(_REQUEST_OVERHEAD_BYTES)
            requests[number].append(one)
            sizes[number] += len(one.data)
            next_request[one.partition] = number + 1
        return requests

    def _send(self, connection: Connection, batches: list[Outgoing]) -> asyncio.Future[Any]:
        metadata = self._cluster.metadata
        topics: dict[str, TopicProduceData] = {}
        highest = None if self._transactional_id is None else _TRANSACTION_VERSION_1
        for (name, number), data in batches:
            topic = topics.get(name)
            if topic is None:
                known = metadata.topics.get(name)
                topic_id = UUID_ZERO if known is None else known.topic_id
                if topic_id == UUID_ZERO and highest is None:
                    highest = _TOPIC_ID_VERSION - 1
                topic = topics[name] = TopicProduceData(
                    name=name, topic_id=topic_id, partition_data=[]
                )
            topic.partition_data.append(PartitionProduceData(index=number, records=data))
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=self._timeout_ms,
            topic_data=list(topics.values()),
        )
        version = connection.version_of(ApiKey.PRODUCE, highest)
        return connection.send(request, version=version, is_answered=self._acks != 0)

    async def _outcome(
        self,
        batches: list[Outgoing],
        future: asyncio.Future[Any],
        address: str,
        is_behind_another: bool,
    ) -> tuple[list[Outgoing], ClientError | None]:
        try:
            response = await future
        except ClientError as error:
            return batches, error
        if response is None:
            return [], None
        names = self._cluster.metadata.topic_names
        errors = {
            (topic.name or names.get(topic.topic_id, ""), answer.index): answer
            for topic in response.responses
            for answer in topic.partition_responses
        }
        failed: list[Outgoing] = []
        failure: ClientError | None = None
        for one in batches:
            answer = errors.get(one.partition)
            if answer is None:
                failed.append(one)
                failure = failure or RequestTimeoutError(f"no answer about {one.partition}")
                continue
            code = Errors.of(answer.error_code)
            if code in _TAKEN:
                continue
            failed.append(one)
            reason = KafkaError(
                code, f"write to {one.partition}", message=answer.error_message, node=address
            )
            if code is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER and is_behind_another:
                reason.retriable = True
            failure = failure or reason
        return failed, failure


_TAKEN: Final = frozenset({Errors.NONE, Errors.DUPLICATE_SEQUENCE_NUMBER})
