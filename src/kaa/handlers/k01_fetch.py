"""Fetch, key 1: reads batches from partitions that this broker leads, or follows.

What is read is a region of a segment file, which the connection sends without this process seeing
the bytes. If there is less than `min_bytes`, nothing is held meanwhile: the wait hears of
progress and everything is read again. A fetch of very many partitions is served in turns, between
which others have theirs; the connection's next request waits as ever. What is not on this disk any
more is read from remote storage (`k01_fetch_remote`).

| version | |
|---|---|
| 4 | the first that is served: isolation levels |
| 5 | log start offset |
| 7 | incremental sessions (KIP-227) |
| 9 | the client's leader epoch is checked (KIP-320) |
| 10 | zstd |
| 11 | rack of the client: consumers may read from followers (KIP-392) |
| 12 | diverging epochs for followers (KIP-595) |
| 13 | topics by id (KIP-516) |
| 15 | replica state (KIP-903) |
| 16 | current leader and its endpoint (KIP-951) |
| 17, 18 | directory id and high watermark of followers (KIP-853, KIP-1166) |
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from kaa.handlers.context import Encoded
from kaa.handlers.k01_fetch_remote import RemotePart, read_remote
from kaa.handlers.settling import once_settled
from kaa.limits import FETCH_PARTITIONS_PER_TURN_MAX, FOLLOWER_FULL_READS_PER_LAG
from kaa.log.errors import LogError
from kaa.log.log import FetchIsolation
from kaa.net.pending import Pending
from kaa.replication.partition import NO_EPOCH, Awaited
from kaa.replication.read_replica import RACK_AWARE_SELECTOR, preferred_replica
from kaa.serving.fetch_sessions import PartitionKey, Position, Sent
from kaa.serving.leader_hints import HintedLeaders
from kaa.wire.errors import Errors
from kaa.wire.frames import encode_response
from kaa.wire.messages.k01_fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from kaa.handlers.context import Answer, RequestContext
    from kaa.log.log import ReadResult, UnifiedLog
    from kaa.replication.partition import Partition
    from kaa.serving.delayed import ProgressSource
    from kaa.serving.fetch_sessions import FetchContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k01_fetch import FetchRequest

R = TypeVar("R")

_FOLLOWER_READS_VERSION: Final = 11
_TOPIC_IDS_VERSION: Final = 13
_LEADER_HINTS_VERSION: Final = 16
# Refusals whose answer names the leader.
_HINTED: Final = frozenset({Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH})


def handle(
    services: Services, request: FetchRequest, context: RequestContext
) -> Answer[FetchResponse | Encoded]:
    if sum(len(topic.partitions) for topic in request.topics) > FETCH_PARTITIONS_PER_TURN_MAX:
        return Pending(_serve_in_turns(services, request, context))
    return _serve(services, request, context, _positions(request))


def _serve(
    services: Services,
    request: FetchRequest,
    context: RequestContext,
    positions: dict[PartitionKey, Position],
) -> Answer[FetchResponse | Encoded]:
    fetch_context = services.fetch_sessions.context(
        request.session_id,
        request.session_epoch,
        positions,
        _forgotten(request) if request.forgotten_topics_data else (),
        is_follower=_replica_id(request) >= 0,
        uses_ids=context.header.api_version >= _TOPIC_IDS_VERSION,
        now_ms=services.view.clock.monotonic_ms(),
    )
    if fetch_context.error is not Errors.NONE:
        return FetchResponse(error_code=fetch_context.error)
    fetch = _Fetch(services, request, context, fetch_context)
    if services.replicas.is_settling:
        return once_settled(services.replicas, fetch.names(), partial(_read, fetch, context))
    return _read(fetch, context)


def _read(fetch: _Fetch, context: RequestContext) -> Answer[FetchResponse | Encoded]:
    request = fetch.request
    if len(fetch.due) > FETCH_PARTITIONS_PER_TURN_MAX:
        return Pending(_read_in_turns(fetch, context))
    fetch.read()
    if fetch.remote:
        return Pending(_read_remotely(fetch))
    if request.max_wait_ms <= 0 or fetch.is_enough or not fetch.context.positions:
        return fetch.response()
    fetch.release()
    # Before anybody else has a turn: what is appended from now on is noticed.
    return Pending(_wait(fetch, request.max_wait_ms, fetch.answer))


def _wait(
    fetch: _Fetch, timeout_ms: float, answer: Callable[[bool], R | None]
) -> asyncio.Future[R]:
    return fetch.services.polls.wait(fetch.sources, timeout_ms, answer, fetch.awaited)


async def _read_remotely(fetch: _Fetch) -> FetchResponse:
    try:
        await fetch.read_remote()
    except BaseException:
        fetch.release()
        raise
    return fetch.response()


async def _serve_in_turns(
    services: Services, request: FetchRequest, context: RequestContext
) -> Answer[FetchResponse | Encoded]:
    positions = await services.loop.run_in_executor(services.batch_work, _positions, request)
    return _serve(services, request, context, positions)


async def _read_in_turns(fetch: _Fetch, context: RequestContext) -> Encoded:
    """Very many partitions: others have their turns meanwhile."""
    loop, polls = fetch.services.loop, fetch.services.polls
    deadline = loop.time() + fetch.request.max_wait_ms / 1000
    try:
        while True:
            progress = _wait(fetch, (deadline - loop.time()) * 1000, lambda _: True)
            for _ in fetch.read_steps():
                await asyncio.sleep(0)
            if fetch.remote or fetch.is_enough or loop.time() >= deadline or polls.are_ended:
                progress.cancel()
                break
            fetch.release()
            await progress
        await fetch.read_remote()
        for _ in fetch.response_steps():
            await asyncio.sleep(0)
        header = context.header
        arguments = (fetch.result, header.api_version, header.correlation_id)
        work = fetch.services.batch_work
        return Encoded(await loop.run_in_executor(work, encode_response, *arguments))
    except BaseException:
        fetch.release()
        raise


class _Fetch:
    """One request's way through its partitions, which may be gone more than once."""

    def __init__(
        self,
        services: Services,
        request: FetchRequest,
        asked: RequestContext,
        context: FetchContext,
    ) -> None:
        self.services = services
        self.request = request
        self.version = asked.header.api_version
        self.context = context
        self.leaders = HintedLeaders(services, asked.connection.listener_name)
        self.replica_id = _replica_id(request)
        state = request.replica_state
        self.replica_epoch = NO_EPOCH if state is None else state.replica_epoch
        if self.replica_id >= 0:
            self.isolation = FetchIsolation.LOG_END
        elif request.isolation_level == 1:
            self.isolation = FetchIsolation.TXN_COMMITTED
        else:
            self.isolation = FetchIsolation.HIGH_WATERMARK
        self.results: dict[PartitionKey, PartitionData] = {}
        # Those among them that are still to be read from remote storage.
        self.remote: list[RemotePart] = []
        self.result = FetchResponse()
        self.bytes_read = 0
        self.is_urgent = False
        # A fetch that waited is read again, and tells nothing new about its sender.
        self.is_repeated = False
        # What the next read is of.
        self.watch = context.watch
        self.due: Collection[PartitionKey] = context.positions
        if self.watch is not None:
            every_ms = services.replicas.lag_ms_max // FOLLOWER_FULL_READS_PER_LAG
            now_ms = services.clock.monotonic_ms()
            self.due = self.watch.take(context.positions, now_ms, every_ms)
        # The rack of a consumer that may be sent to another replica.
        self.rack = ""
        if request.rack_id and self.replica_id < 0:
            selector = services.config.get_optional_string("replica.selector.class")
            self.rack = request.rack_id if selector == RACK_AWARE_SELECTOR else ""

    @property
    def awaited(self) -> Awaited:
        return Awaited.LOG_END if self.replica_id >= 0 else Awaited.HIGH_WATERMARK

    @property
    def is_enough(self) -> bool:
        """An error or a diverging epoch is answered at once, whatever the bytes."""
        return self.is_urgent or self.bytes_read >= self.request.min_bytes

    @property
    def sources(self) -> list[ProgressSource]:
        """Who tells of progress."""
        if self.watch is not None:
            return [self.watch]
        found = (self.find(key) for key in self.context.positions)
        return [partition for partition in found if not isinstance(partition, Errors)]

    def names(self) -> list[tuple[str, int]]:
        """The partitions of the next read that the cluster knows."""
        if self.version < _TOPIC_IDS_VERSION:
            return [(key.topic, key.number) for key in self.due]
        topics = self.services.image.topics_by_id
        found = ((topics.get(key.topic_id), key.number) for key in self.due)
        return [(topic.name, number) for topic, number in found if topic is not None]

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
        self.remote.clear()
        self.bytes_read, self.is_urgent = 0, False
        room = min(self.request.max_bytes, self.services.view.config.get_int("fetch.max.bytes"))
        if self.is_repeated and self.watch is not None:
            self.due = self.watch.take_due()
        for key in self.due:
            position = self.context.positions.get(key)
            if position is None:
                continue
            remote_count = len(self.remote)
            result = self.read_partition(key, position, room)
            self.results[key] = result
            if len(self.remote) > remote_count:
                # How much will come is not known yet: as much as may.
                room = max(0, room - self.remote[-1].bytes_max)
            if (
                result.error_code
                or result.diverging_epoch is not None
                or result.preferred_read_replica >= 0
            ):
                self.is_urgent = True
            size = 0 if result.records is None else len(result.records)
            self.bytes_read += size
            room = max(0, room - size)
            if len(self.results) % FETCH_PARTITIONS_PER_TURN_MAX == 0:
                yield
        self.is_repeated = True

    def read_partition(self, key: PartitionKey, position: Position, room: int) -> PartitionData:
        partition = self.find(key)
        if isinstance(partition, Errors):
            return self.hinted(key, _failed(key, partition))
        if not partition.is_leader and not self.may_read_followers:
            return self.hinted(key, _failed(key, Errors.NOT_LEADER_OR_FOLLOWER, is_here=True))
        if self.watch is not None:
            self.watch.watch(key, partition)
        # Any negative epoch stands for none here.
        error = partition.check_leader_epoch(max(position.current_leader_epoch, NO_EPOCH))
        if error is not Errors.NONE:
            return self.hinted(key, _failed(key, error, is_here=True))
        try:
            return self.read_replica(key, position, room, partition)
        except LogError as failure:
            is_remote = failure.error is Errors.OFFSET_MOVED_TO_TIERED_STORAGE
            if is_remote and self.replica_id < 0 and self.services.remote_logs is not None:
                return self.later(key, position, room, partition)
            return _failed(key, failure.error, is_here=True)

    def later(
        self, key: PartitionKey, position: Position, room: int, partition: Partition
    ) -> PartitionData:
        """An answer without records, which come from remote storage before it is sent. One that is
        read while it waits is sent without them, and the client asks again.
        """
        log = partition.leader_log()
        result = PartitionData(
            partition_index=key.number,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if self.isolation is FetchIsolation.TXN_COMMITTED else None,
            records=b"",
        )
        bytes_max, min_one = min(position.bytes_max, room), self.bytes_read == 0
        self.remote.append(
            RemotePart(partition, position.fetch_offset, bytes_max, min_one, self.isolation, result)
        )
        self.is_urgent = True
        return result

    async def read_remote(self) -> None:
        if self.remote:
            assert self.services.remote_logs is not None
            await read_remote(self.services.remote_logs, self.remote)

    @property
    def may_read_followers(self) -> bool:
        """Whether the sender knows that a replica may serve which is not the leader (KIP-392)."""
        return self.replica_id < 0 and self.version >= _FOLLOWER_READS_VERSION

    def read_replica(
        self, key: PartitionKey, position: Position, room: int, partition: Partition
    ) -> PartitionData:
        if self.replica_id >= 0:
            error = partition.check_follower(
                self.replica_id,
                self.replica_epoch,
                knows_epoch=position.current_leader_epoch >= 0,
            )
            if error is not Errors.NONE:
                return _failed(key, error, is_here=True)
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
        if self.rack:
            preferred = preferred_replica(partition, self.rack, position.fetch_offset)
            if preferred is not None:
                return self.sent_away(key, log, preferred)
        result = partition.read(
            position.fetch_offset,
            min(position.bytes_max, room),
            self.isolation,
            # The first batch of an answer may be larger than any limit, so that readers move on.
            min_one=self.bytes_read == 0,
        )
        if self.watch is not None and position.fetch_offset < log.log_end_offset:
            # If it does not fit, or is not sent now, it is with the next answer.
            self.watch.note(key)
        if self.replica_id >= 0 and not self.is_repeated:
            # Only now: an offset that cannot be read tells nothing of the follower's progress.
            partition.replica_fetched(
                self.replica_id,
                position.fetch_offset,
                position.log_start_offset,
                self.replica_epoch,
            )
        if self.replica_id >= 0 and self.services.replicas.holds_back(partition, self.replica_id):
            if result.region is not None:
                result.region.release()
            return PartitionData(
                partition_index=key.number,
                high_watermark=log.high_watermark,
                last_stable_offset=log.last_stable_offset,
                log_start_offset=log.log_start_offset,
                aborted_transactions=None,
                records=b"",
            )
        if result.region is not None and log.is_before(result.region, result.end_offset_bound):
            # The rest of an older segment is all that one read gives: no use in waiting for more.
            self.is_urgent = True
        return PartitionData(
            partition_index=key.number,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=_aborted(result),
            records=b"" if result.region is None else result.region,
        )

    def count_sent(self, key: PartitionKey, size: int) -> None:
        """What goes to a follower counts where it is throttled, in sync or not."""
        partition, replicas = self.find(key), self.services.replicas
        if not isinstance(partition, Errors) and replicas.is_sending_throttled(partition):
            replicas.leader_throttle.record(size)

    def hinted(self, key: PartitionKey, result: PartitionData) -> PartitionData:
        """A refusal, with the leader if that is the reason."""
        if self.version >= _LEADER_HINTS_VERSION and result.error_code in _HINTED:
            topic = self.services.image.topics_by_id.get(key.topic_id)
            if topic is not None:
                hint = self.leaders.hint(topic.name, key.number)
                result.current_leader = LeaderIdAndEpoch(
                    leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
                )
        return result

    def sent_away(self, key: PartitionKey, log: UnifiedLog, replica: int) -> PartitionData:
        """No records, but where they are to be read."""
        return PartitionData(
            partition_index=key.number,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None if self.isolation is FetchIsolation.HIGH_WATERMARK else [],
            preferred_read_replica=replica,
            records=b"",
        )

    def answer(self, is_late: bool) -> FetchResponse | None:
        """The response, if there is enough for one, or if it cannot wait any longer."""
        self.read()
        if is_late or self.is_enough:
            return self.response()
        self.release()
        return None

    def release(self) -> None:
        """Gives back what was read and is not going to be sent. What a follower has not heard yet
        is due again: the read that is answered is one of what is new since then.
        """
        for key, result in self.results.items():
            if result.records is not None and not isinstance(result.records, bytes):
                result.records.release()
            if self.watch is not None:
                sent = Sent(result.high_watermark, result.log_start_offset)
                if not self.context.is_sent(key, sent):
                    self.watch.note(key)
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
            if self.replica_id >= 0 and result.records:
                self.count_sent(key, len(result.records))
            has_data = (
                bool(result.records)
                or result.error_code
                or result.diverging_epoch
                or result.preferred_read_replica >= 0
            )
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
        if self.leaders.found:
            self.result.node_endpoints = [
                NodeEndpoint(
                    node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
                for broker, endpoint in self.leaders.found.values()
            ]


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
