"""The broker's part of the tier: copies what it leads, deletes what has expired, reads for others.

Every `remote.log.manager.task.interval.ms` each partition of a tiered topic is looked at, by a task
of its own, so that one with years to copy holds up nobody. A follower only learns how far the store
is, so that its disk too may forget what is there. A leader does two things:

1. **Copy.** A segment is announced (COPY_SEGMENT_STARTED), its objects are written, the log last,
   and it is finished. Only then may local retention take it. A copy that fails is deleted again;
   what a crash leaves is deleted by the next leader and copied under a new id.
2. **Expire.** The start of the log moves first, then each segment is marked, its objects go, and it
   is forgotten. Nothing is deleted that metadata still names as readable.

`kaa.tier.plan` decides; here it is done. Each step asks again whether this broker still leads in
the same epoch. Nothing happens before the metadata of the partition is ready, and nothing ends the
node: what fails is reported once per partition and tried again after a growing pause.

A topic that is deleted, or leaves the tier (KIP-950), leaves its remote segments to the broker that
led it last: the deletion is marked, started, done and finished in the metadata. What is to be
removed is kept in a file until then (`deletions`), so that a restart goes on with it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.limits import TIER_QUOTA_PAUSE_MS_MAX
from kaa.log.checkpoints import encode_checkpoint
from kaa.log.errors import LogError
from kaa.log.files import RealFiles, read_whole
from kaa.log.producer_snapshots import encode_producer_snapshot
from kaa.log.segment import SegmentRegion
from kaa.tier.deletions import MemoryDeletions
from kaa.tier.metadata.machine import NotAssignedError, NotReadyError, RemoteMetadataError
from kaa.tier.metadata.model import (
    EpochStart,
    PartitionDeleteState,
    PartitionDeletion,
    SegmentMetadata,
    SegmentState,
    SegmentUpdate,
)
from kaa.tier.plan import (
    UNLIMITED,
    Retention,
    copied_up_to,
    epochs_within,
    first_remote,
    to_copy,
    to_expire,
)
from kaa.tier.quota import ByteRate, QuotaWindow
from kaa.tier.slots import Slots
from kaa.tier.store.layout import Part
from kaa.tier.store.objects import StoreError
from kaa.tier.store.segments import checksum, encode_written
from kaa.wire.primitives import Uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor

    from kaa.log.log import UnifiedLog
    from kaa.log.segment import Segment
    from kaa.model.seams import Clock, RandomSource
    from kaa.tier.deletions import Deletions
    from kaa.tier.metadata.model import TopicIdPartition
    from kaa.tier.metadata.port import RemoteLogMetadata
    from kaa.tier.plan import Closed
    from kaa.tier.reading.cache import SegmentCache
    from kaa.tier.store.segments import RemoteSegments, WrittenObject

_LOCAL_PARTS: Final = {
    Part.LOG: ".log",
    Part.OFFSET_INDEX: ".index",
    Part.TIME_INDEX: ".timeindex",
    Part.TXN_INDEX: ".txnindex",
}
_FAILURES: Final = (StoreError, RemoteMetadataError, LogError, OSError)


class Pace(NamedTuple):
    """How often, and how much at a time."""

    interval_ms: int = 30_000
    copies_max: int = 10
    expirations_max: int = 10
    # After a failure, doubled at each further one.
    backoff_ms: int = 500
    backoff_ms_max: int = 30_000
    # The share of a pause by which it may be longer or shorter.
    jitter: float = 0.2
    copy_bytes_per_second_max: int = 2**63 - 1
    custom_metadata_bytes_max: int = 128


class Counters:
    """What Kafka counts of its remote storage, since the start."""

    def __init__(self) -> None:
        self.copied_bytes = 0
        self.copy_requests = 0
        self.copy_errors = 0
        self.delete_requests = 0
        self.delete_errors = 0
        self.fetched_bytes = 0
        self.fetch_requests = 0
        self.fetch_errors = 0


class Led:
    """A partition that this broker leads, or follows, in one leader epoch."""

    __slots__ = (
        "busy",
        "is_leader",
        "is_over",
        "is_start_known",
        "leader_epoch",
        "log",
        "partition",
        "said",
    )

    def __init__(
        self,
        partition: TopicIdPartition,
        leader_epoch: int,
        log: UnifiedLog,
        *,
        is_leader: bool = True,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.log = log
        self.is_leader = is_leader
        # Set when this epoch is over; work under way stops at its next step.
        self.is_over = False
        # Whether the start of the log was compared with what the store has.
        self.is_start_known = False
        # Held while something is copied or deleted.
        self.busy = asyncio.Lock()
        # What failed last, so that a fault that lasts is said once.
        self.said = ""

    @property
    def name(self) -> str:
        return f"{self.partition.topic}-{self.partition.partition}"


def epochs_of(log: UnifiedLog) -> list[EpochStart]:
    return [EpochStart(*entry) for entry in log.leader_epochs.entries]


def _retention(log: UnifiedLog) -> Retention:
    """Without a policy everything is kept (KIP-1058)."""
    if not log.config.delete:
        return Retention(UNLIMITED, UNLIMITED)
    return Retention(log.config.retention_ms, log.config.retention_bytes)


class RemoteLogManager:
    """Copies, expires and deletes the remote segments of this broker's partitions. `lead`,
    `follow`, `stop` and `remove` return at once; `run` does the work.
    """

    def __init__(
        self,
        node_id: int,
        metadata: RemoteLogMetadata,
        segments: RemoteSegments,
        cache: SegmentCache,
        *,
        executor: Executor,
        clock: Clock,
        random: RandomSource,
        report: Callable[[str], None],
        pace: Callable[[], Pace] = Pace,
        window: QuotaWindow = QuotaWindow(),  # noqa: B008  It cannot change.
        deletions: Deletions | None = None,
    ) -> None:
        self._node_id = node_id
        self.metadata = metadata
        self._segments = segments
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._random = random
        self._report = report
        self._pace = pace
        self._deletions = deletions or MemoryDeletions()
        self.counters = Counters()
        self._copied = ByteRate(window)
        self._copies = Slots(lambda: self._pace().copies_max)
        self._expirations = Slots(lambda: self._pace().expirations_max)
        self._led: dict[TopicIdPartition, Led] = {}
        # Partitions whose remote segments are being removed.
        self._removed: dict[TopicIdPartition, None] = {}
        # None while it does not run.
        self._tasks: asyncio.TaskGroup | None = None

    # --- which partitions

    def lead(self, partition: TopicIdPartition, leader_epoch: int, log: UnifiedLog) -> None:
        """This broker leads a partition of a tiered topic."""
        self._tend_to(Led(partition, leader_epoch, log))

    def follow(self, partition: TopicIdPartition, leader_epoch: int, log: UnifiedLog) -> None:
        """It holds a copy, and will need the metadata if it comes to lead."""
        self._tend_to(Led(partition, leader_epoch, log, is_leader=False))

    def _tend_to(self, led: Led) -> None:
        known = self._led.get(led.partition)
        if known is not None:
            if (known.leader_epoch, known.log, known.is_leader) == (
                led.leader_epoch,
                led.log,
                led.is_leader,
            ):
                return
            known.is_over = True
        self._led[led.partition] = led
        self.metadata.assign([led.partition])
        if self._tasks is not None:
            self._tasks.create_task(self._watch(led))

    def stop(self, partition: TopicIdPartition) -> None:
        """It no longer has the partition."""
        led = self._led.pop(partition, None)
        if led is not None:
            led.is_over = True
            self.metadata.unassign([partition])

    def remove(self, partition: TopicIdPartition) -> None:
        """The topic was deleted, or has left the tier: its remote segments go, however long that
        takes.
        """
        if partition not in self._removed:
            self._removed[partition] = None
            if self._tasks is not None:
                self._tasks.create_task(self._remove(partition))

    # --- rounds

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for led in self._led.values():
                tasks.create_task(self._watch(led))
            for partition in list(self._removed):
                tasks.create_task(self._remove(partition))
            for partition in await self._deletions.load():
                # One that is tiered again starts over, and expires what is before its start.
                if partition not in self._led:
                    self.remove(partition)
            await asyncio.get_running_loop().create_future()

    async def _watch(self, led: Led) -> None:
        failures = 0
        while not led.is_over:
            failures = 0 if await self._tend(led) else failures + 1
            await asyncio.sleep(self._pause_ms(failures) / 1000)

    def _pause_ms(self, failures: int) -> int:
        pace = self._pace()
        if not failures:
            return pace.interval_ms
        pause_ms = min(pace.backoff_ms << min(failures - 1, 16), pace.backoff_ms_max)
        return round(pause_ms * (1 + pace.jitter * (2 * self._random.random() - 1)))

    async def _tend(self, led: Led) -> bool:
        """One round; False if it failed and should soon be tried again."""
        try:
            if not led.is_leader:
                self._learn_copied(led)
                return True
            self._settle_start(led)
            async with led.busy, self._copies:
                await self.copy(led)
            async with led.busy, self._expirations:
                await self.expire(led)
            led.said = ""
        except NotReadyError:
            return False  # It says so itself.
        except NotAssignedError:
            return True
        except Exception as error:  # noqa: BLE001  It costs this partition alone.
            self._say(led, f"remote log of {led.name}: {_reason(error)}")
            return False
        return True

    def say(self, partition: TopicIdPartition, what: str) -> None:
        """Reports what went wrong with a partition, once while it lasts."""
        led = self._led.get(partition)
        if led is not None:
            self._say(led, f"remote log of {led.name} {what}")

    def _say(self, led: Led, text: str) -> None:
        if text != led.said:
            led.said = text
            self._report(text)

    def _learn_copied(self, led: Led) -> None:
        """How far the store is, so that local retention may go as far."""
        cache, log = self.metadata.user(led.partition).cache, led.log
        log.copied_offset = copied_up_to(cache, epochs_of(log), log.log_end_offset)

    def _settle_start(self, led: Led) -> None:
        """A new leader starts its log no lower than the store does: the checkpoint of the start may
        be older than the last deletions, or there was none yet.
        """
        if not led.is_start_known:
            cache, log = self.metadata.user(led.partition).cache, led.log
            first = first_remote(cache, epochs_of(log))
            lowest = log.local_log_start_offset
            if first is not None:
                lowest = min(first, lowest)
            log.increment_log_start_offset(min(lowest, log.high_watermark))
            led.is_start_known = True

    # --- copying

    async def copy(self, led: Led) -> None:
        """Copies every closed segment that the store does not have."""
        self._learn_copied(led)
        log = led.log
        if log.config.remote_log_copy_disable or not log.leader_epochs.entries:
            return
        start = max(log.copied_offset + 1, log.log_start_offset)
        for closed in to_copy(log.segments.base_offsets, start, log.last_stable_offset):
            await self._wait_for_quota()
            if led.is_over:
                return
            self.counters.copy_requests += 1
            try:
                await self._copy_one(led, closed)
            except _FAILURES:
                self.counters.copy_errors += 1
                raise
            log.copied_offset = max(log.copied_offset, closed.next_offset - 1)

    async def _wait_for_quota(self) -> None:
        while True:
            limit = self._pace().copy_bytes_per_second_max
            wait_ms = self._copied.wait_ms(limit, self._clock.monotonic_ms())
            if not wait_ms:
                return
            await asyncio.sleep(min(wait_ms, TIER_QUOTA_PAUSE_MS_MAX) / 1000)

    async def _copy_one(self, led: Led, closed: Closed) -> None:
        local = led.log.segments.floor(closed.base_offset)
        if local is None or local.base_offset != closed.base_offset:
            return  # Compaction or retention was here first.
        held = SegmentRegion(led.log.directory, local, 0, local.size)
        try:
            with led.log.reading():
                parts = self._parts(led.log, local, closed)
                segment = self._describe(led, local, closed, has_aborts=Part.TXN_INDEX in parts)
            written = await self._checksums(led.log, parts)
            await self.metadata.publish(segment)
            try:
                await self._segments.copy(segment, parts)
            except (StoreError, OSError):
                await self._delete_one(segment)
                raise
            self._count_copied(segment.size_bytes)
            await self._finish(led, segment, encode_written(written))
        finally:
            held.release()

    async def _checksums(
        self, log: UnifiedLog, parts: Mapping[Part, Path | bytes]
    ) -> dict[Part, WrittenObject]:
        """Of all that is going to be copied. It is read for the first time here, so that a disk
        that cannot be read shows itself before the store has anything.
        """
        loop = asyncio.get_running_loop()
        try:
            return {
                part: await loop.run_in_executor(self._executor, checksum, source)
                for part, source in parts.items()
            }
        except FileNotFoundError:
            # The log was deleted or has moved meanwhile, and its folder is not there any more.
            raise
        except OSError as error:
            raise log.failed(error, is_reading=True) from error

    def _count_copied(self, size_bytes: int) -> None:
        self.counters.copied_bytes += size_bytes
        self._copied.record(size_bytes, self._clock.monotonic_ms())

    async def _finish(self, led: Led, segment: SegmentMetadata, written: bytes) -> None:
        """Makes the copy readable, unless a newer leader has taken it for a leftover: then what was
        written after it had deleted everything would be without metadata for ever.
        """
        known = None
        if not led.is_over:
            known = self.metadata.user(led.partition).cache.get(segment.segment_id)
        if known is None or known.state != SegmentState.COPY_SEGMENT_STARTED:
            await self._segments.delete(segment)
            raise StoreError(f"{led.name} is led by another broker; a copy was given up")
        limit = self._pace().custom_metadata_bytes_max
        custom = written if len(written) <= limit else None
        state = SegmentState.COPY_SEGMENT_FINISHED
        await self.metadata.publish(self._update(segment, state, custom))

    def _parts(self, log: UnifiedLog, local: Segment, closed: Closed) -> dict[Part, Path | bytes]:
        files = log.directory.files
        local.flush_indexes()

        def source(path: str) -> Path | bytes:
            return Path(path) if isinstance(files, RealFiles) else read_whole(files, path)

        parts = {
            part: source(local.path(suffix))
            for part, suffix in _LOCAL_PARTS.items()
            if files.exists(local.path(suffix))
        }
        if Part.TXN_INDEX in parts and not local.transaction_index.entries:
            del parts[Part.TXN_INDEX]
        snapshot = log.snapshots.path(closed.next_offset)
        parts[Part.PRODUCER_SNAPSHOT] = (
            source(snapshot) if files.exists(snapshot) else encode_producer_snapshot([])
        )
        parts[Part.LEADER_EPOCHS] = encode_checkpoint(
            f"{epoch} {start}" for epoch, start in epochs_of(log) if start < closed.next_offset
        )
        return parts

    def _describe(
        self, led: Led, local: Segment, closed: Closed, *, has_aborts: bool
    ) -> SegmentMetadata:
        return SegmentMetadata(
            led.partition,
            Uuid(self._random.randbytes(16)),
            closed.base_offset,
            closed.next_offset - 1,
            max_timestamp_ms=local.largest_timestamp,
            broker_id=self._node_id,
            event_timestamp_ms=self._clock.wall_ms(),
            size_bytes=local.size,
            state=SegmentState.COPY_SEGMENT_STARTED,
            leader_epochs=epochs_within(epochs_of(led.log), closed.base_offset, closed.next_offset),
            is_txn_index_empty=not has_aborts,
        )

    def _update(
        self, segment: SegmentMetadata, state: SegmentState, custom: bytes | None
    ) -> SegmentUpdate:
        return SegmentUpdate(
            segment.partition,
            segment.segment_id,
            self._clock.wall_ms(),
            self._node_id,
            state,
            custom,
        )

    # --- deleting

    async def expire(self, led: Led) -> None:
        """Deletes what retention, the start of the log and lost leaders leave over."""
        cache, log = self.metadata.user(led.partition).cache, led.log
        local_only = sum(
            segment.size for segment in log.segments if segment.base_offset > log.copied_offset
        )
        expiry = to_expire(
            cache,
            epochs_of(log),
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            local_only_bytes=local_only,
            retention=_retention(log),
            now_ms=self._clock.wall_ms(),
        )
        log.increment_log_start_offset(min(expiry.log_start_offset, log.high_watermark))
        for deletion in expiry.deletions:
            if led.is_over:
                return
            await self._delete_one(deletion.segment)

    async def _delete_one(self, segment: SegmentMetadata) -> None:
        self.counters.delete_requests += 1
        try:
            await self._delete_steps(segment)
        except _FAILURES:
            self.counters.delete_errors += 1
            raise

    async def _delete_steps(self, segment: SegmentMetadata) -> None:
        custom = segment.custom_metadata
        if segment.state != SegmentState.DELETE_SEGMENT_STARTED:
            state = SegmentState.DELETE_SEGMENT_STARTED
            await self.metadata.publish(self._update(segment, state, custom))
        await self._segments.delete(segment)
        self._cache.drop(segment.segment_id)
        state = SegmentState.DELETE_SEGMENT_FINISHED
        await self.metadata.publish(self._update(segment, state, custom))

    async def _remove(self, partition: TopicIdPartition) -> None:
        failures, said = 0, ""
        while True:
            try:
                await self._deletions.save(self._removed)
                await self.delete_partition(partition)
                self._removed.pop(partition, None)
                await self._deletions.save(self._removed)
            except Exception as error:  # noqa: BLE001  It costs this partition alone.
                text = f"remote log of {partition.topic}-{partition.partition}: {_reason(error)}"
                if text != said and not isinstance(error, NotReadyError):
                    self._report(text)
                    said = text
                failures += 1
                await asyncio.sleep(self._pause_ms(failures) / 1000)
            else:
                return

    async def delete_partition(self, partition: TopicIdPartition) -> None:
        """Deletes all that is in the store; may be done again after a crash."""
        led = self._led.pop(partition, None)
        if led is not None:
            led.is_over = True
            # What it copies just now has to be known before it can be deleted.
            async with led.busy:
                pass
        self.metadata.assign([partition])
        user = self.metadata.user(partition)
        if user.deletion is not None or user.cache.segments():
            marked, started, finished = PartitionDeleteState
            for step in (marked, started):
                if user.deletion is None or user.deletion < step:
                    await self._publish_deletion(partition, step)
            for segment in user.cache.segments():
                await self._delete_one(segment)
            await self._publish_deletion(partition, finished)
        if partition not in self._led:
            self.metadata.unassign([partition])

    async def _publish_deletion(
        self, partition: TopicIdPartition, state: PartitionDeleteState
    ) -> None:
        now_ms = self._clock.wall_ms()
        await self.metadata.publish(PartitionDeletion(partition, state, now_ms, self._node_id))

    # --- questions of others

    def status(self, partition: TopicIdPartition) -> Mapping[SegmentState, int]:
        """How many segments are in which state."""
        counts = dict.fromkeys(SegmentState, 0)
        for segment in self.metadata.user(partition).cache.segments():
            counts[segment.state] += 1
        return counts


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, _FAILURES) else f"unexpected, tried again: {error!r}"
