"""Tiered storage as the rest of a broker sees it: who leads what, and records that left the disk.

Partitions tell of every change (`update`, `lose`). A fetch below the local start of a log is read
from the store, beside everything else: what takes longer than `remote.fetch.max.wait.ms` is
answered empty and found in memory by the client's next fetch. At most `remote.log.reader.threads`
reads run at a time; above `remote.log.manager.fetch.max.bytes.per.second` the answer is empty too,
as Kafka's is.

A store that fails, an object that is missing or damaged, is an error of that fetch alone. What is
not known yet (the metadata is still read, or it lags behind a local start that moved) is refused
as OFFSET_NOT_AVAILABLE, which clients try again, and never as out of range, which would make them
jump over records that are there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from kaa.log.errors import LogError
from kaa.log.log import FetchIsolation
from kaa.tier.manager import epochs_of
from kaa.tier.metadata.machine import RemoteMetadataError
from kaa.tier.metadata.model import TopicIdPartition
from kaa.tier.quota import ByteRate
from kaa.tier.reading.reader import OffsetNotRemoteError
from kaa.tier.slots import Slots
from kaa.tier.store.objects import StoreError
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.log.log import UnifiedLog
    from kaa.log.lookup import TimestampAndOffset
    from kaa.log.rebuild import RemoteState
    from kaa.log.transaction_index import AbortedTransaction
    from kaa.model.seams import Clock
    from kaa.replication.partition import Partition
    from kaa.tier.manager import RemoteLogManager
    from kaa.tier.quota import QuotaWindow
    from kaa.tier.reading.reader import RemoteReader


class ReadBounds(NamedTuple):
    """The settings of reading, as they are now."""

    wait_ms_max: int = 500
    search_ms_max: int = 30_000
    reads_max: int = 10
    waiting_max: int = 100
    bytes_per_second_max: int = 2**63 - 1


class RemoteRead(NamedTuple):
    """Whole batches; aborted transactions only for readers of committed data."""

    data: bytes
    aborted: list[AbortedTransaction] | None


def tier_id(partition: Partition) -> TopicIdPartition:
    return TopicIdPartition(partition.topic_id, partition.topic, partition.number)


class RemoteLogs:
    """Reads records and offsets that are in remote storage, and tells the tier what this broker
    leads. Errors are those of the API, for one partition each.
    """

    def __init__(
        self,
        manager: RemoteLogManager,
        reader: RemoteReader,
        clock: Clock,
        bounds: Callable[[], ReadBounds],
        window: QuotaWindow,
    ) -> None:
        self.manager = manager
        self._reader = reader
        self._clock = clock
        self._bounds = bounds
        self._reads = Slots(lambda: self._bounds().reads_max)
        self._fetched = ByteRate(window)

    # --- which partitions

    def update(self, partition: Partition) -> None:
        """The partition, its leader or its settings changed."""
        log = partition.log
        if log is None:
            self.manager.stop(tier_id(partition))
        elif not log.is_tiered:
            self._leave(partition, log)
        elif partition.is_leader:
            self.manager.lead(tier_id(partition), partition.leader_epoch, log)
        else:
            self.manager.follow(tier_id(partition), partition.leader_epoch, log)

    def _leave(self, partition: Partition, log: UnifiedLog) -> None:
        """The topic is not tiered, or not any more: then what is remote is not part of it."""
        self.manager.stop(tier_id(partition))
        if partition.is_leader and log.config.remote_log_delete_on_disable:
            log.increment_log_start_offset(min(log.local_log_start_offset, log.high_watermark))
            self.manager.remove(tier_id(partition))

    def lose(self, partition: Partition, *, is_deleted: bool) -> None:
        """This broker lost the partition; it clears away what it led of a deleted topic."""
        is_tiered = partition.log is not None and partition.log.is_tiered
        if is_deleted and is_tiered and partition.is_leader:
            self.manager.remove(tier_id(partition))
        self.manager.stop(tier_id(partition))

    # --- reading

    @property
    def wait_seconds_max(self) -> float:
        return self._bounds().wait_ms_max / 1000

    async def read(
        self,
        partition: Partition,
        offset: int,
        *,
        bytes_max: int,
        min_one: bool,
        isolation: FetchIsolation,
    ) -> RemoteRead:
        """Batches that are not on this disk any more; LogError."""
        counters, bounds = self.manager.counters, self._bounds()
        if self._fetched.wait_ms(bounds.bytes_per_second_max, self._clock.monotonic_ms()):
            is_committed = isolation is FetchIsolation.TXN_COMMITTED
            return RemoteRead(b"", [] if is_committed else None)
        if self._reads.waiting_count >= bounds.waiting_max:
            raise LogError(Errors.OFFSET_NOT_AVAILABLE, "too many reads wait for the store")
        counters.fetch_requests += 1
        try:
            async with self._reads:
                found = await self._read(partition, offset, bytes_max, min_one, isolation)
        except (StoreError, RemoteMetadataError, OffsetNotRemoteError) as error:
            counters.fetch_errors += 1
            raise self._refusal(partition, offset, error) from error
        counters.fetched_bytes += len(found.data)
        self._fetched.record(len(found.data), self._clock.monotonic_ms())
        return found

    async def _read(
        self,
        partition: Partition,
        offset: int,
        bytes_max: int,
        min_one: bool,
        isolation: FetchIsolation,
    ) -> RemoteRead:
        log = partition.online_log()
        cache, epochs = self.manager.metadata.user(tier_id(partition)).cache, epochs_of(log)
        found = await self._reader.read(
            cache,
            epochs,
            offset,
            end_offset=log.end_offset(isolation),
            bytes_max=bytes_max,
            min_one=min_one,
        )
        if isolation is not FetchIsolation.TXN_COMMITTED:
            return RemoteRead(found.data, None)
        aborted, is_complete = await self._reader.aborted(cache, epochs, offset, found.next_offset)
        if not is_complete:
            known = set(aborted)
            with log.reading():
                local = log.collect_aborted(offset, found.next_offset)
            aborted += [one for one in local if one not in known]
        return RemoteRead(found.data, aborted)

    def _refusal(self, partition: Partition, offset: int, error: Exception) -> LogError:
        log = partition.log
        if log is not None and offset < log.log_start_offset:
            return LogError(Errors.OFFSET_OUT_OF_RANGE, "the start of the log has moved")
        if isinstance(error, StoreError):
            self.manager.say(tier_id(partition), f"cannot be read: {error}")
            return LogError(Errors.UNKNOWN_SERVER_ERROR, str(error))
        return LogError(Errors.OFFSET_NOT_AVAILABLE, str(error))

    # --- for followers

    async def state_before(self, partition: Partition, epoch: int, offset: int) -> RemoteState:
        """What comes with the remote segment that holds the offset before this one; LogError."""
        try:
            cache = self.manager.metadata.user(tier_id(partition)).cache
            segment = cache.find(epoch, offset - 1)
            if segment is None:
                raise OffsetNotRemoteError(f"offset {offset - 1} of epoch {epoch} is not known")
            return await self._reader.state_of(segment)
        except (StoreError, RemoteMetadataError, OffsetNotRemoteError) as error:
            raise LogError(Errors.OFFSET_NOT_AVAILABLE, str(error)) from error

    # --- by time

    async def find_by_time(
        self, partition: Partition, timestamp_ms: int
    ) -> TimestampAndOffset | None:
        """The first record of that time or later in the store; None if the disk may have it."""
        log = partition.online_log()
        if log.local_log_start_offset <= log.log_start_offset:
            return None
        try:
            async with asyncio.timeout(self._bounds().search_ms_max / 1000), self._reads:
                cache = self.manager.metadata.user(tier_id(partition)).cache
                found = await self._reader.find_by_time(
                    cache, epochs_of(log), timestamp_ms, log.log_start_offset
                )
        except TimeoutError:
            raise LogError(Errors.REQUEST_TIMED_OUT, "the store was too slow") from None
        except (StoreError, RemoteMetadataError) as error:
            raise self._refusal(partition, log.log_start_offset, error) from error
        return found
