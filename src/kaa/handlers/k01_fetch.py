"""Fetch, key 1: reads batches from partitions that this broker leads.

What is read is a region of a segment file, which the connection sends without this process seeing
the bytes. If there is less than `min_bytes`, nothing is held meanwhile: the wait is told of
progress and everything is read anew. A fetch of very many partitions is served in turns, between
which others have theirs; the connection's next request waits as ever.

| version | |
|---|---|
| 4 | the first that is served: isolation levels |
| 5 | log start offset |
| 7 | incremental sessions (KIP-227) |
| 9 | the client's leader epoch is checked (KIP-320) |
| 10 | zstd |
| 11 | rack of the client (KIP-392); this broker always serves from the leader |
| 12 | diverging epochs for followers (KIP-595) |
| 13 | topics by id (KIP-516) |
| 15 | replica state (KIP-903) |
| 16 | current leader and its endpoint (KIP-951) |
| 17, 18 | directory id and high watermark of followers (KIP-853, KIP-1166) |
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

from kaa.limits import FETCH_PARTITIONS_PER_TURN_MAX
from kaa.log.errors import LogError
from kaa.log.log import FetchIsolation
from kaa.replication.partition import NO_EPOCH
from kaa.serving.fetch_sessions import PartitionKey, Position
from kaa.wire.errors import Errors
from kaa.wire.frames import encode_response
from kaa.wire.messages.k01_fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.handlers.context import RequestContext
    from kaa.log.log import ReadResult
    from kaa.replication.partition import Partition
    from kaa.serving.delayed import Wait
    from kaa.serving.fetch_sessions import FetchContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k01_fetch import FetchRequest

_TOPIC_IDS_VERSION: Final = 13
_CONSUMER: Final = -1


def handle(services: Services, request: FetchRequest, context: RequestContext) -> Any:
    if sum(len(topic.partitions) for topic in request.topics) > FETCH_PARTITIONS_PER_TURN_MAX:
        return _serve_in_turns(services, request, context)
    return _serve(services, request, context, _positions(request))


def _serve(
    services: Services,
    request: FetchRequest,
    context: RequestContext,
    positions: dict[PartitionKey, Position],
) -> Any:
    fetch_context = _context(services, request, context, positions)
    if fetch_context.error is not Errors.NONE:
        return FetchResponse(error_code=fetch_context.error)
    fetch = _Fetch(services, request, context.api_version, fetch_context)
    if len(fetch_context.positions) > FETCH_PARTITIONS_PER_TURN_MAX:
        return _read_in_turns(fetch, context)
    fetch.read()
    if request.max_wait_ms <= 0 or fetch.is_enough or not fetch_context.positions:
        return fetch.response()
    fetch.release()

    def is_enough() -> bool:
        fetch.read()
        if fetch.is_enough:
            return True
        fetch.release()
        return False

    # Before anybody else has a turn: what is appended from now on is noticed.
    return _finish(fetch, services.polls.wait(fetch.partitions, request.max_wait_ms, is_enough))


async def _finish(fetch: _Fetch, wait: Wait) -> FetchResponse:
    if not await wait.done:
        fetch.read()
    return fetch.response()


async def _serve_in_turns(
    services: Services, request: FetchRequest, context: RequestContext
) -> Any:
    positions = await services.loop.run_in_executor(services.batch_work, _positions, request)
    answer = _serve(services, request, context, positions)
    return await answer if isinstance(answer, Awaitable) else answer


async def _read_in_turns(fetch: _Fetch, context: RequestContext) -> list[Any]:
    """Very many partitions: others have their turns meanwhile."""
    loop, polls = fetch.services.loop, fetch.services.polls
    deadline = loop.time() + fetch.request.max_wait_ms / 1000
    try:
        while True:
            wait = polls.wait(fetch.partitions, (deadline - loop.time()) * 1000, lambda: True)
            for _ in fetch.read_steps():
                await asyncio.sleep(0)
            if fetch.is_enough or loop.time() >= deadline or polls.are_ended:
                wait.done.cancel()
                break
            fetch.release()
            await wait.done
        for _ in fetch.response_steps():
            await asyncio.sleep(0)
        header = context.header
        arguments = (fetch.result, header.api_version, header.correlation_id)
        work = fetch.services.batch_work
        return await loop.run_in_executor(work, encode_response, *arguments)
    except BaseException:
        fetch.release()
        raise


def _context(
    services: Services,
    request: FetchRequest,
    context: RequestContext,
    positions: dict[PartitionKey, Position],
) -> FetchContext:
    return services.fetch_sessions.context(
        request.session_id,
        request.session_epoch,
        positions,
        _forgotten(request),
        is_follower=_replica_id(request) >= 0,
        uses_ids=context.api_version >= _TOPIC_IDS_VERSION,
        now_ms=services.clock.monotonic_ms(),
    )


class _Fetch:
    """One request's way through its partitions, which may be gone more than once."""

    def __init__(
        self, services: Services, request: FetchRequest, version: int, context: FetchContext
    ) -> None:
        self.services = services
        self.request = request
        self.version = version
        self.context = context
        self.replica_id = _replica_id(request)
        if self.replica_id >= 0:
            self.isolation = FetchIsolation.LOG_END
        elif request.isolation_level == 1:
            self.isolation = FetchIsolation.TXN_COMMITTED
        else:
            self.isolation = FetchIsolation.HIGH_WATERMARK
        self.results: dict[PartitionKey, PartitionData] = {}
        self.result = FetchResponse()
        self.bytes_read = 0
        self.is_urgent = False

    @property
    def is_enough(self) -> bool:
        """An error or a diverging epoch is told at once, whatever the bytes."""
        return self.is_urgent or self.bytes_read >= self.request.min_bytes

    @property
    def partitions(self) -> list[Partition]:
        found = (self.find(key) for key in self.context.positions)
        return [partition for partition in found if not isinstance(partition, Errors)]

    def find(self, key: PartitionKey) -> Partition | Errors:
        replicas = self.services.replicas
        if self.version >= _TOPIC_IDS_VERSION:
            return replicas.find_by_id(key.topic_id, key.number)
        return replicas.find(key.topic, key.number)

    def read(self) -> None:
        for _ in self.read_steps():
            pass

    def read_steps(self) -> Iterator[None]:
        """Reads all partitions, in order, within the size of the answer; pauses now and then."""
        self.results.clear()
        self.bytes_read, self.is_urgent = 0, False
        room = min(self.request.max_bytes, self.services.config.get_int("fetch.max.bytes"))
        for key, position in self.context.positions.items():
            result = self.read_partition(key, position, room)
            self.results[key] = result
            if result.error_code or result.diverging_epoch is not None:
                self.is_urgent = True
            size = 0 if result.records is None else len(result.records)
            self.bytes_read += size
            room = max(0, room - size)
            if len(self.results) % FETCH_PARTITIONS_PER_TURN_MAX == 0:
                yield

    def read_partition(self, key: PartitionKey, position: Position, room: int) -> PartitionData:
        partition = self.find(key)
        if isinstance(partition, Errors):
            return _failed(key, partition)
        if not partition.is_leader:
            return self.not_leader(key, partition)
        # Any negative epoch stands for none here.
        error = partition.check_leader_epoch(max(position.current_leader_epoch, NO_EPOCH))
        if error is not Errors.NONE:
            return self.not_leader(key, partition, error)
        try:
            return self.read_leader(key, position, room, partition)
        except LogError as failure:
            return _failed(key, failure.error, is_here=True)

    def read_leader(
        self, key: PartitionKey, position: Position, room: int, partition: Partition
    ) -> PartitionData:
        log = partition.leader_log()
        diverging = _diverging(partition, position)
        if diverging is not None:
            return PartitionData(
                partition_index=key.number,
                high_watermark=log.high_watermark,
                last_stable_offset=log.last_stable_offset,
                log_start_offset=log.log_start_offset,
                diverging_epoch=diverging,
            )
        if self.replica_id >= 0:
            partition.replica_fetched(self.replica_id, position.fetch_offset)
        result = partition.read(
            position.fetch_offset,
            min(position.bytes_max, room),
            self.isolation,
            # The first batch of an answer may be larger than any limit, so that readers move on.
            min_one=self.bytes_read == 0,
        )
        return PartitionData(
            partition_index=key.number,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=_aborted(result),
            records=b"" if result.region is None else result.region,
        )

    def not_leader(
        self,
        key: PartitionKey,
        partition: Partition,
        error: Errors = Errors.NOT_LEADER_OR_FOLLOWER,
    ) -> PartitionData:
        result = _failed(key, error, is_here=True)
        if self.version >= 16 and error is not Errors.UNKNOWN_LEADER_EPOCH:
            result.current_leader = LeaderIdAndEpoch(
                leader_id=partition.image.leader, leader_epoch=partition.leader_epoch
            )
        return result

    def release(self) -> None:
        """Gives back what was read and is not going to be sent."""
        for result in self.results.values():
            if result.records is not None and not isinstance(result.records, bytes):
                result.records.release()
        self.results.clear()

    def response(self) -> FetchResponse:
        for _ in self.response_steps():
            pass
        return self.result

    def response_steps(self) -> Iterator[None]:
        """Makes `result` of what was read; pauses now and then."""
        topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
        for number, (key, result) in enumerate(self.results.items(), 1):
            if number % FETCH_PARTITIONS_PER_TURN_MAX == 0:
                yield
            has_data = bool(result.records) or result.error_code or result.diverging_epoch
            if not self.context.is_news(
                key,
                has_data=bool(has_data),
                high_watermark=result.high_watermark,
                log_start_offset=result.log_start_offset,
            ):
                continue
            topic = topics.get((key.topic, key.topic_id))
            if topic is None:
                topic = FetchableTopicResponse(topic=key.topic, topic_id=key.topic_id)
                topics[key.topic, key.topic_id] = topic
            topic.partitions.append(result)
        self.result.session_id = self.context.session_id
        self.result.responses = list(topics.values())


def _positions(request: FetchRequest) -> dict[PartitionKey, Position]:
    return {
        PartitionKey(topic.topic, topic.topic_id, partition.partition): Position(
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
            partition.last_fetched_epoch,
            partition.log_start_offset,
        )
        for topic in request.topics
        for partition in topic.partitions
    }


def _forgotten(request: FetchRequest) -> list[PartitionKey]:
    return [
        PartitionKey(topic.topic, topic.topic_id, number)
        for topic in request.forgotten_topics_data
        for number in topic.partitions
    ]


def _replica_id(request: FetchRequest) -> int:
    if request.replica_state is not None:
        return request.replica_state.replica_id
    return request.replica_id


def _failed(key: PartitionKey, error: Errors, *, is_here: bool = False) -> PartitionData:
    return PartitionData(
        partition_index=key.number,
        error_code=error,
        high_watermark=-1,
        # Kafka has a list for a partition that it does not find, and none for one that failed.
        aborted_transactions=None if is_here else [],
        records=b"",
    )


def _diverging(partition: Partition, position: Position) -> EpochEndOffset | None:
    """Where the log of a follower, or the position of a consumer, parts from this one."""
    if position.last_fetched_epoch < 0:
        return None
    end = partition.epoch_end(position.last_fetched_epoch)
    if end.end_offset < 0:
        raise LogError(Errors.OFFSET_OUT_OF_RANGE, "the last fetched epoch is not known here")
    if end.epoch < position.last_fetched_epoch or end.end_offset < position.fetch_offset:
        return EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
    return None


def _aborted(result: ReadResult) -> list[AbortedTransaction] | None:
    if result.aborted is None:
        return None
    return [
        AbortedTransaction(producer_id=found.producer_id, first_offset=found.first_offset)
        for found in result.aborted
    ]
