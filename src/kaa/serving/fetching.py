"""Reads of clients and followers from the partitions that this broker leads, or follows.

The partitions of a fetch are read in order, within the size of its answer. What is read is a region
of a segment file, which the connection sends without this process seeing the bytes. If there is
less than the sender wants, nothing is held meanwhile: the wait hears of progress and everything is
read again. A fetch of very many partitions is read in turns, between which others have theirs. What
is not on this disk any more is read from remote storage (`remote_parts`).

A fetch of a follower also says how far it has come, which the leader notes here, and is held back
where replication is throttled.

What is read of a partition is made at once as the part of the answer that it will be: a fetch of
thousands of partitions has no time for two objects each.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kaa.limits import FETCH_PARTITIONS_PER_TURN_MAX, FOLLOWER_FULL_READS_PER_LAG
from kaa.log.errors import LogError
from kaa.log.log import FetchIsolation
from kaa.model.pieces import finish
from kaa.model.topics import NO_EPOCH
from kaa.model.turns import in_turns
from kaa.replication.partition import Awaited
from kaa.replication.read_replica import RACK_AWARE_SELECTOR, preferred_replica
from kaa.serving.delayed import WatchedPartitions
from kaa.serving.fetch_sessions import Sent
from kaa.serving.remote_parts import RemotePart, read_remote
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import AbortedTransaction, EpochEndOffset, PartitionData

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from kaa.log.log import ReadResult, UnifiedLog
    from kaa.model.pieces import Pieces
    from kaa.model.topics import PartitionName
    from kaa.replication.partition import Partition
    from kaa.serving.delayed import ProgressSource
    from kaa.serving.fetch_sessions import FetchContext, PartitionKey, Position
    from kaa.serving.services import Services

R = TypeVar("R")


class FetchTerms(NamedTuple):
    """What a fetch says of all its partitions."""

    # The follower that fetches; negative for consumers.
    replica_id: int
    replica_epoch: int
    isolation: FetchIsolation
    # With less than that, the answer waits.
    bytes_min: int
    bytes_max: int
    wait_ms_max: int
    uses_ids: bool
    # Whether the sender knows that a replica may serve which is not the leader (KIP-392).
    knows_followers: bool
    # The rack of a consumer that would rather read from a replica there.
    rack_id: str


class Fetching:
    """One fetch on its way through its partitions, which may be gone more than once."""

    def __init__(self, services: Services, terms: FetchTerms, context: FetchContext) -> None:
        self._services = services
        self._terms = terms
        self._context = context
        # What was read, in order.
        self.results: dict[PartitionKey, PartitionData] = {}
        # Those among them that are still to be read from remote storage.
        self._remote: list[RemotePart] = []
        self._bytes_read = 0
        self._is_urgent = False
        # A fetch that waited is read again, and tells nothing new about its sender.
        self._is_repeated = False
        # What the next read is of.
        self._watch = context.watch
        self._due: Collection[PartitionKey] = context.positions
        if self._watch is not None:
            every_ms = services.replicas.lag_ms_max // FOLLOWER_FULL_READS_PER_LAG
            now_ms = services.clock.monotonic_ms()
            self._due = self._watch.take(context.positions, now_ms, every_ms)
        # Set for a consumer that may be sent to another replica.
        self._rack = ""
        if terms.rack_id and terms.replica_id < 0:
            selector = services.config.get_optional_string("replica.selector.class")
            self._rack = terms.rack_id if selector == RACK_AWARE_SELECTOR else ""

    def names(self) -> list[PartitionName]:
        """The partitions of the next read that the cluster knows."""
        if not self._terms.uses_ids:
            return [(key.topic, key.number) for key in self._due]
        topics = self._services.image.topics_by_id
        found = ((topics.get(key.topic_id), key.number) for key in self._due)
        return [(topic.name, number) for topic, number in found if topic is not None]

    # --- the way to the answer

    def serve(self, respond: Callable[[], Pieces[R]]) -> R | Awaitable[R]:
        """What `respond` makes of `results`: at once, or when there is enough in them."""
        if len(self._due) > FETCH_PARTITIONS_PER_TURN_MAX:
            return self._serve_in_turns(respond)
        for _ in self._read():
            pass
        if self._remote:
            return self._serve_from_remote(respond)
        wait_ms_max = self._terms.wait_ms_max
        if wait_ms_max <= 0 or self._is_enough or not self._context.positions:
            return finish(respond())
        self._release()
        # Before anybody else has a turn: what is appended from now on is noticed.
        look = partial(self._look, respond)
        return self._services.polls.wait(self._sources(), wait_ms_max, look, self._awaited)

    def _look(self, respond: Callable[[], Pieces[R]], is_late: bool) -> R | None:
        """The answer, if there is enough for one, or if it cannot wait any longer."""
        for _ in self._read():
            pass
        if is_late or self._is_enough:
            return finish(respond())
        self._release()
        return None

    async def _serve_from_remote(self, respond: Callable[[], Pieces[R]]) -> R:
        try:
            await self._read_remote()
        except BaseException:
            self._release()
            raise
        return finish(respond())

    async def _serve_in_turns(self, respond: Callable[[], Pieces[R]]) -> R:
        """Very many partitions: others have their turns meanwhile."""
        loop, polls = self._services.loop, self._services.polls
        deadline = loop.time() + self._terms.wait_ms_max / 1000
        watched = WatchedPartitions(loop, self._awaited)
        sources: list[ProgressSource] = [watched if self._watch is None else self._watch]
        try:
            while True:
                timeout_ms = (deadline - loop.time()) * 1000
                progress = polls.wait(sources, timeout_ms, lambda _: True, self._awaited)
                if self._watch is None:
                    await in_turns(self._watch_all(watched))
                await in_turns(self._read())
                if self._remote or self._is_enough or loop.time() >= deadline or polls.are_ended:
                    progress.cancel()
                    break
                self._release()
                await progress
            await self._read_remote()
            return await in_turns(respond())
        except BaseException:
            self._release()
            raise
        finally:
            watched.close()

    def _watch_all(self, watched: WatchedPartitions) -> Pieces[None]:
        """Before they are read: what is appended from then on is noticed."""
        for count, key in enumerate(self._context.positions, 1):
            partition = self._find(key)
            if not isinstance(partition, Errors):
                watched.add(partition)
            if count % FETCH_PARTITIONS_PER_TURN_MAX == 0:
                yield

    @property
    def _awaited(self) -> Awaited:
        return Awaited.LOG_END if self._terms.replica_id >= 0 else Awaited.HIGH_WATERMARK

    @property
    def _is_enough(self) -> bool:
        """An error or a diverging epoch is answered at once, whatever the bytes."""
        return self._is_urgent or self._bytes_read >= self._terms.bytes_min

    def _sources(self) -> list[ProgressSource]:
        """Who tells of progress."""
        if self._watch is not None:
            return [self._watch]
        found = (self._find(key) for key in self._context.positions)
        return [partition for partition in found if not isinstance(partition, Errors)]

    def _release(self) -> None:
        """Gives back what was read and is not going to be sent. What a follower has not heard yet
        is due again: the read that is answered is one of what is new since then.
        """
        for key, result in self.results.items():
            if result.records is not None and not isinstance(result.records, bytes):
                result.records.release()
            if self._watch is not None:
                sent = Sent(result.high_watermark, result.log_start_offset)
                if not self._context.is_sent(key, sent):
                    self._watch.note(key)
        self.results.clear()

    def note_sent(self, key: PartitionKey, result: PartitionData) -> bool:
        """Notes what the answer says of a partition; False if that is no news, and left out."""
        if self._terms.replica_id >= 0 and result.records:
            self._count_sent(key, len(result.records))
        return self._context.note_sent(key, result)

    def _count_sent(self, key: PartitionKey, size: int) -> None:
        """What goes to a follower counts where it is throttled, in sync or not."""
        partition, replicas = self._find(key), self._services.replicas
        if not isinstance(partition, Errors) and replicas.is_sending_throttled(partition):
            replicas.leader_throttle.record(size)

    # --- reading

    def _read(self) -> Pieces[None]:
        """Reads all partitions, in order, within the size of the answer."""
        self.results.clear()
        self._remote.clear()
        self._bytes_read, self._is_urgent = 0, False
        room = min(self._terms.bytes_max, self._services.view.config.get_int("fetch.max.bytes"))
        if self._is_repeated and self._watch is not None:
            self._due = self._watch.take_due()
        for key in self._due:
            position = self._context.positions.get(key)
            if position is None:
                continue
            remote_count = len(self._remote)
            result = self._read_partition(key, position, room)
            self.results[key] = result
            if len(self._remote) > remote_count:
                # How much will come is not known yet: as much as may.
                room = max(0, room - self._remote[-1].bytes_max)
            if (
                result.error_code
                or result.diverging_epoch is not None
                or result.preferred_read_replica >= 0
            ):
                self._is_urgent = True
            size = 0 if result.records is None else len(result.records)
            self._bytes_read += size
            room = max(0, room - size)
            if len(self.results) % FETCH_PARTITIONS_PER_TURN_MAX == 0:
                yield
        self._is_repeated = True

    def _find(self, key: PartitionKey) -> Partition | Errors:
        replicas = self._services.replicas
        if self._terms.uses_ids:
            return replicas.find_by_id(key.topic_id, key.number)
        return replicas.find(key.topic, key.number)

    def _read_partition(self, key: PartitionKey, position: Position, room: int) -> PartitionData:
        partition, terms = self._find(key), self._terms
        if isinstance(partition, Errors):
            return _failed(key, partition)
        if self._watch is not None:
            self._watch.watch(key, partition)
        refusal = partition.read_refusal(
            # Any negative epoch stands for none here.
            max(position.current_leader_epoch, NO_EPOCH),
            needs_leader=terms.replica_id >= 0 or not terms.knows_followers,
        )
        if refusal is not None:
            return _failed(key, refusal, is_here=True)
        try:
            return self._read_replica(key, position, room, partition)
        except LogError as failure:
            is_remote = failure.error is Errors.OFFSET_MOVED_TO_TIERED_STORAGE
            if is_remote and terms.replica_id < 0 and self._services.remote_logs is not None:
                return self._read_later(key, position, room, partition)
            return _failed(key, failure.error, is_here=True)

    def _read_replica(
        self, key: PartitionKey, position: Position, room: int, partition: Partition
    ) -> PartitionData:
        replica_id, replica_epoch = self._terms.replica_id, self._terms.replica_epoch
        if replica_id >= 0:
            knows_epoch = position.current_leader_epoch >= 0
            error = partition.check_follower(replica_id, replica_epoch, knows_epoch=knows_epoch)
            if error is not Errors.NONE:
                return _failed(key, error, is_here=True)
        log = partition.online_log()
        diverging = _diverging(partition, position)
        if diverging is not None:
            return _part(key, log, diverging_epoch=diverging)
        if self._rack:
            preferred = preferred_replica(partition, self._rack, position.fetch_offset)
            if preferred is not None:
                # No records, but where they are to be read.
                is_plain = self._terms.isolation is FetchIsolation.HIGH_WATERMARK
                return _part(
                    key,
                    log,
                    aborted_transactions=None if is_plain else [],
                    preferred_read_replica=preferred,
                    records=b"",
                )
        read = partition.read(
            position.fetch_offset,
            min(position.bytes_max, room),
            self._terms.isolation,
            # The first batch of an answer may be larger than any limit, so that readers move on.
            min_one=self._bytes_read == 0,
        )
        if self._watch is not None and position.fetch_offset < log.log_end_offset:
            # If it does not fit, or is not sent now, it is with the next answer.
            self._watch.note(key)
        if replica_id >= 0 and not self._is_repeated:
            # Only now: an offset that cannot be read tells nothing of the follower's progress.
            partition.replica_fetched(
                replica_id, position.fetch_offset, position.log_start_offset, replica_epoch
            )
        if replica_id >= 0 and self._services.replicas.holds_back(partition, replica_id):
            if read.region is not None:
                read.region.release()
            return _part(key, log, aborted_transactions=None, records=b"")
        if read.region is not None and log.is_before(read.region, read.end_offset_bound):
            # The rest of an older segment is all that one read gives: no use in waiting for more.
            self._is_urgent = True
        return PartitionData(
            partition_index=key.number,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=_aborted(read),
            records=b"" if read.region is None else read.region,
        )

    def _read_later(
        self, key: PartitionKey, position: Position, room: int, partition: Partition
    ) -> PartitionData:
        """A part without records, which come from remote storage before it is sent. One that is
        read while it waits is sent without them, and the client asks again.
        """
        isolation = self._terms.isolation
        is_committed = isolation is FetchIsolation.TXN_COMMITTED
        aborted: list[AbortedTransaction] | None = [] if is_committed else None
        result = _part(key, partition.online_log(), aborted_transactions=aborted, records=b"")
        bytes_max, min_one = min(position.bytes_max, room), self._bytes_read == 0
        self._remote.append(
            RemotePart(partition, position.fetch_offset, bytes_max, min_one, isolation, result)
        )
        self._is_urgent = True
        return result

    async def _read_remote(self) -> None:
        if self._remote:
            assert self._services.remote_logs is not None
            await read_remote(self._services.remote_logs, self._remote)


def _part(key: PartitionKey, log: UnifiedLog, **fields: Any) -> PartitionData:
    """What an answer says of every partition that it could look at, and these fields."""
    return PartitionData(
        partition_index=key.number,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        **fields,
    )


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


def _aborted(read: ReadResult) -> list[AbortedTransaction] | None:
    if read.aborted is None:
        return None
    return [
        AbortedTransaction(producer_id=found.producer_id, first_offset=found.first_offset)
        for found in read.aborted
    ]
