"""A leader in the same process: the log that a future log in another directory copies.

It is asked like a leader on another broker (`kaa.replication.follower.link`), and answers from
the log itself, without sessions. One partition after the other is copied, so that moves finish one
by one instead of all at the end. Files are read by a thread.

A source may itself be cut while it is copied, when its broker follows another leader. Where its
epochs tell, the answer is a diverging epoch, as to any follower. Where they do not, the log has
noted how far it was cut (`unfollowed_cut_offset`): the answer is OFFSET_OUT_OF_RANGE, and the
bounds that are asked for next end there.

Of a tiered log only what is on the disk is copied. The copy begins by being rebuilt, like any
replica whose leader has records in remote storage alone, with what the source knows of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from kaa.limits import (
    MOVE_PIECE_BYTES,
    MOVE_TAIL_BYTES_MAX,
    MOVES_LOOKED_AT_PER_TURN_MAX,
)
from kaa.log.errors import DamagedLogError, LogError
from kaa.log.log import FetchIsolation
from kaa.model.turns import Turns
from kaa.replication.follower.link import LeaderOffsets, LocalStart
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from kaa.log.log import UnifiedLog
    from kaa.log.segment import SegmentRegion
    from kaa.replication.follower.link import ReplicaFetchBounds
    from kaa.replication.follower.session import FetchPlan, FetchPosition, PartitionId
    from kaa.replication.partition import Partition


class Sources(Protocol):
    """Who has the logs that are copied."""

    def source(self, key: PartitionId) -> Partition | None: ...

    def find_source(self, topic: str, number: int) -> Partition | None: ...

    def copy_end(self, key: PartitionId) -> int | None:
        """Where the future log ends now."""
        ...

    async def advance(self, key: PartitionId) -> bool:
        """Goes on where there is nothing to copy, or a little; whether the future log is done."""
        ...

    @property
    def bytes_per_second(self) -> int:
        """How fast moves may be at the moment."""
        ...

    async def read(self, region: SegmentRegion, buffer: memoryview) -> None:
        """Fills the buffer with the bytes of a region, no faster than moves may be."""
        ...

    def source_damaged(self, key: PartitionId, reason: str) -> None:
        """Ends the copy of a log that is not whole."""
        ...

    def watch(self, news: asyncio.Event) -> None:
        """Sets the event when a source goes on, until `unwatch`."""
        ...

    def unwatch(self, news: asyncio.Event) -> None: ...


class LocalLeader:
    """Answers the fetches of future logs out of the logs they copy, in the shape of a remote
    leader.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        # Records are read into it, and are in it until the next fetch, for which the fetcher waits
        # until they are appended. A new buffer each time would cost more than reading and writing.
        self._buffer = memoryview(bytearray())

    async def fetch(self, plan: FetchPlan, bounds: ReplicaFetchBounds) -> FetchResponse:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + bounds.wait_ms / 1000
        news, keys = asyncio.Event(), sorted(plan.partitions)
        turns = Turns(MOVES_LOOKED_AT_PER_TURN_MAX)
        self._sources.watch(news)
        try:
            while True:
                news.clear()
                for key in keys:
                    await turns.next()
                    data = await self._partition(key, plan.partitions[key])
                    if data is not None:
                        return _response(key, data)
                # There may be news every time that say nothing of these partitions.
                if loop.time() >= deadline:
                    return FetchResponse(responses=[])
                async with asyncio.timeout_at(deadline):
                    await news.wait()
        except TimeoutError:
            return FetchResponse(responses=[])
        finally:
            self._sources.unwatch(news)

    async def _partition(self, key: PartitionId, position: FetchPosition) -> PartitionData | None:
        """What there is to tell of a partition; None if there is nothing."""
        partition = self._sources.source(key)
        log = None if partition is None else partition.log
        if partition is None or log is None:
            return PartitionData(
                partition_index=key[1], error_code=Errors.REPLICA_NOT_AVAILABLE, high_watermark=-1
            )
        if log.pending is not None:
            return None
        data = PartitionData(
            partition_index=key[1],
            high_watermark=log.high_watermark,
            log_start_offset=log.log_start_offset,
        )
        try:
            is_cut = self._follow_cut(log, position)
            diverging = None if is_cut else _diverging(partition, position)
            if _lacks_remote_state(log, position):
                data.error_code = Errors.OFFSET_MOVED_TO_TIERED_STORAGE
            elif is_cut:
                data.error_code = Errors.OFFSET_OUT_OF_RANGE
            elif diverging is not None:
                data.diverging_epoch = diverging
            else:
                records = await self._records(key, log, position)
                if records is None and position.log_start_offset >= log.log_start_offset:
                    return None
                data.records = records or b""
        except DamagedLogError as error:
            # To try again would never end.
            self._sources.source_damaged(key, str(error))
            data.error_code = error.error
        except LogError as error:
            data.error_code = error.error
        return data

    def _follow_cut(self, log: UnifiedLog, position: FetchPosition) -> bool:
        """Forgets a cut of the source that the copy has followed; whether there is one to follow,
        since the source lost what was copied.
        """
        cut_offset = log.unfollowed_cut_offset
        if cut_offset is not None and cut_offset < position.fetch_offset:
            return True
        log.unfollowed_cut_offset = None
        return not log.local_log_start_offset <= position.fetch_offset <= log.log_end_offset

    async def _records(
        self, key: PartitionId, log: UnifiedLog, position: FetchPosition
    ) -> memoryview | None:
        """What to append next; None if the future log has it all."""
        # A slow move copies a second's worth at once, or it would show nothing for a long time.
        found = log.read(
            position.fetch_offset,
            bytes_max=min(MOVE_PIECE_BYTES, self._sources.bytes_per_second),
            isolation=FetchIsolation.LOG_END,
        )
        region, generation = found.region, log.generation
        try:
            if region is None or _is_tail(log, region):
                # A move that was ended and begun again since is not where this fetch asks.
                is_there = self._sources.copy_end(key) == position.fetch_offset
                is_done = is_there and await self._sources.advance(key)
                if is_done or region is None:
                    return None
            buffer = self._room(region.length)
            await self._sources.read(region, buffer)
            if log.generation != generation:
                # Others may have been written over them meanwhile.
                raise LogError(Errors.REPLICA_NOT_AVAILABLE, "the log was cut while it was read")
            return buffer
        finally:
            if region is not None:
                region.release()

    def _room(self, length: int) -> memoryview:
        if length > MOVE_PIECE_BYTES:
            # One batch that is larger than all others.
            return memoryview(bytearray(length))
        if not self._buffer:
            self._buffer = memoryview(bytearray(MOVE_PIECE_BYTES))
        return self._buffer[:length]

    async def offsets(self, topic: str, number: int, leader_epoch: int) -> LeaderOffsets | Errors:
        partition = self._sources.find_source(topic, number)
        log = None if partition is None else partition.log
        if log is None:
            return Errors.REPLICA_NOT_AVAILABLE
        end_offset, cut_offset = log.log_end_offset, log.unfollowed_cut_offset
        if cut_offset is not None:
            end_offset = min(end_offset, cut_offset)
        return LeaderOffsets(log.local_log_start_offset, end_offset)

    async def local_start(
        self, topic: str, number: int, leader_epoch: int, *, after_tier: bool
    ) -> LocalStart | Errors:
        """Where the source begins on its disk; what is in remote storage is not copied."""
        partition = self._sources.find_source(topic, number)
        log = None if partition is None else partition.log
        if log is None:
            return Errors.REPLICA_NOT_AVAILABLE
        start = log.local_log_start_offset
        before = log.leader_epochs.epoch_for_offset(start - 1)
        return LocalStart(start, -1 if before is None else before, log.log_start_offset)

    def close(self) -> None:
        """There is no connection."""


def _lacks_remote_state(log: UnifiedLog, position: FetchPosition) -> bool:
    """Whether the copy of a tiered log has to start over where the disk of its source does, with
    what the segments before it tell: it ends before, or knows of no epoch yet.
    """
    start = log.local_log_start_offset
    if not log.is_tiered or start <= log.log_start_offset:
        return False
    if position.fetch_offset < start:
        return True
    is_unknown = position.last_fetched_epoch < 0
    return is_unknown and log.leader_epochs.epoch_for_offset(start - 1) is not None


def _is_tail(log: UnifiedLog, region: SegmentRegion) -> bool:
    """Whether a region is the rest of the log, and a small one."""
    active = log.segments.active
    is_rest = region.segment is active and region.position + region.length == active.size
    return is_rest and region.length <= MOVE_TAIL_BYTES_MAX


def _diverging(partition: Partition, position: FetchPosition) -> EpochEndOffset | None:
    if position.last_fetched_epoch < 0:
        return None
    end = partition.epoch_end(position.last_fetched_epoch)
    if end.end_offset < 0:
        return None
    if end.epoch < position.last_fetched_epoch or end.end_offset < position.fetch_offset:
        return EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
    return None


def _response(key: PartitionId, data: PartitionData) -> FetchResponse:
    topic = FetchableTopicResponse(topic_id=key[0], partitions=[data])
    return FetchResponse(responses=[topic])
