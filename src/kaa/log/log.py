"""A log: the append-only sequence of batches of one partition replica on this broker.

The offsets of a log, each at or above the one before it::

    log start offset      the first that a client may read (DeleteRecords, retention)
    local log start       the first that is on this disk (below it: tiered storage)
    last stable offset    readers of committed data stop here
    high watermark        readers stop here; set by the owner, the partition
    log end offset        the next to be written
    recovery point        everything below is on stable storage; at most the log end offset

Nothing here waits, locks or runs in the background: the owner calls, in order, from one loop, and
hands in the time. Long work comes as jobs (``flush_job``) or generators (``kaa.log.recovery``,
``kaa.log.cleaner``). An error of the disk takes the whole directory offline (``kaa.log.dirs``).
"""

from __future__ import annotations

from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING

from kaa.limits import LOG_RECENT_POSITIONS_MAX
from kaa.log.append import judge_producers, plan_follower_append, plan_leader_append
from kaa.log.errors import LogError
from kaa.log.files import unlink_if_exists
from kaa.log.flush import FlushJob
from kaa.log.names import DELETED_SUFFIX, SEGMENT_SUFFIXES
from kaa.log.producer_state import AppendOrigin
from kaa.log.properties import write_topic_id
from kaa.log.replay import note_completed_transaction
from kaa.log.segment import Segment, SegmentRegion
from kaa.log.truncation import restart_log, truncate_log
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random
    from uuid import UUID

    from kaa.log.append import AppendInfo, AppendPlan
    from kaa.log.config import LogConfig
    from kaa.log.dirs import LogDirectory
    from kaa.log.errors import StorageError
    from kaa.log.files import File
    from kaa.log.leader_epochs import LeaderEpochCache
    from kaa.log.names import TopicPartition
    from kaa.log.producer_snapshots import ProducerSnapshots
    from kaa.log.producer_state import CompletedTransaction, ProducerState, VerificationGuard
    from kaa.log.segments import Segments
    from kaa.log.transaction_index import AbortedTransaction


class FetchIsolation(Enum):
    """How far a reader may see."""

    LOG_END = "log end"
    """Replicas."""
    HIGH_WATERMARK = "high watermark"
    """Consumers that read uncommitted data."""
    TXN_COMMITTED = "committed"
    """Consumers that read committed data."""


class ReadResult:
    """Batches to send. If there is a region, release it when they are sent."""

    __slots__ = ("aborted", "end_offset_bound", "region")

    def __init__(
        self,
        region: SegmentRegion | None,
        end_offset_bound: int,
        aborted: list[AbortedTransaction] | None,
    ) -> None:
        self.region = region
        """None if there is nothing to read (yet)."""
        self.end_offset_bound = end_offset_bound
        """Where reading had to stop: the high watermark, last stable or log end offset."""
        self.aborted = aborted
        """Aborted transactions in the range; None unless only committed data was asked for."""


class UnifiedLog:
    """See the module. ``kaa.log.recovery.load_log`` makes one."""

    def __init__(
        self,
        directory: LogDirectory,
        folder: str,
        partition: TopicPartition,
        topic_id: UUID | None,
        config: LogConfig,
        segments: Segments,
        producer_state: ProducerState,
        snapshots: ProducerSnapshots,
        leader_epochs: LeaderEpochCache,
        random: Random,
        *,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        verify_transactions: bool = True,
        now_ms: int = 0,
    ) -> None:
        self.directory = directory
        self.folder = folder
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.segments = segments
        self.producer_state = producer_state
        self.snapshots = snapshots
        self.leader_epochs = leader_epochs
        self.log_start_offset = log_start_offset
        self.local_log_start_offset = max(log_start_offset, segments.first.base_offset)
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.recovery_point = recovery_point
        self.verify_transactions = verify_transactions
        self.last_flushed_ms = now_ms
        self._random = random
        self._recent: dict[int, tuple[Segment, int]] = {}
        """Offsets at which a batch starts, to segment and position; oldest first."""
        self._doomed: list[tuple[int, Segment | str]] = []
        """Renamed segments and snapshots, with the time at which they are unlinked."""
        self.is_closed = False
        self.is_cleaning = False
        """Whether a round of compaction is under way; retention waits for it."""
        self.truncated_offset: int | None = None
        """The lowest end that the log was cut to since the cleaner last looked."""
        self.is_new = False
        """Whether the name of the folder may still be lost: its parent was not synced since."""
        self.unsynced_files: list[File] = []
        """Open files that the next flush syncs and closes: snapshots, the topic id."""
        self.last_snapshot_offset = snapshots.offsets[-1] if snapshots.offsets else 0
        self.generation = 0
        """Counts truncations."""

    # --- appending -------------------------------------------------------------------------

    def append(
        self,
        records: bytearray | memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Appends validated batches as the leader, which assigns their offsets in place."""
        plan = self.prepare_append(
            records,
            leader_epoch=leader_epoch,
            now_ms=now_ms,
            origin=origin,
            guard=guard,
            transaction_version=transaction_version,
        )
        return self._finish(plan, now_ms)

    def append_as_follower(
        self, records: bytearray | memoryview | bytes, *, leader_epoch: int, now_ms: int
    ) -> AppendInfo:
        """Appends batches of the leader as they are."""
        plan = self.prepare_follower_append(records, leader_epoch=leader_epoch, now_ms=now_ms)
        return self._finish(plan, now_ms)

    def prepare_append(
        self,
        records: bytearray | memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> AppendPlan:
        """The first step of an append. LogError refuses it; at most a new segment was begun."""
        if self.directory.offline_reason is not None:
            raise self.directory.storage_error()
        plan = plan_leader_append(self, records, leader_epoch, origin)
        self._place(plan, now_ms)
        if plan.batches:
            judge_producers(self, plan, origin, guard, transaction_version)
        self._plan_flush(plan)
        return plan

    def prepare_follower_append(
        self, records: bytes | bytearray | memoryview, *, leader_epoch: int, now_ms: int
    ) -> AppendPlan:
        if self.directory.offline_reason is not None:
            raise self.directory.storage_error()
        plan = plan_follower_append(self, records, leader_epoch)
        self._place(plan, now_ms)
        judge_producers(self, plan, AppendOrigin.REPLICATION)
        self._plan_flush(plan)
        return plan

    def _place(self, plan: AppendPlan, now_ms: int) -> None:
        """Finds the segment for what was accepted, a new one if need be."""
        if not plan.extents:
            return
        info = plan.info
        if info.size_in_bytes > self.config.segment_bytes:
            raise LogError(
                Errors.RECORD_LIST_TOO_LARGE,
                f"{info.size_in_bytes} bytes do not fit a segment of {self.config.segment_bytes}",
            )
        segment = self.segments.active
        if segment.should_roll(now_ms, info.size_in_bytes, info.max_timestamp, info.last_offset):
            segment = self.roll(now_ms, info.first_offset)
        plan.segment = segment

    def _plan_flush(self, plan: AppendPlan) -> None:
        end_offset = plan.info.last_offset + 1
        if (
            plan.segment is not None
            and end_offset - self.recovery_point >= self.config.flush_messages
        ):
            plan.flush = self._flush_job(end_offset, whole_active=False)

    def _finish(self, plan: AppendPlan, now_ms: int) -> AppendInfo:
        if plan.segment is not None:
            try:
                plan.write()
            except OSError as error:
                raise self.fail_append(plan, error) from error
            self.complete_append(plan, now_ms)
        return plan.info

    def fail_append(self, plan: AppendPlan, error: OSError) -> StorageError:
        """The write did not succeed: the directory is offline. Returns the error to raise."""
        if plan.flush is not None:
            plan.flush.close(done=False)
        return self.directory.fail(error)

    def complete_append(self, plan: AppendPlan, now_ms: int) -> None:
        """Makes written batches part of the log."""
        segment, info = plan.segment, plan.info
        assert segment is not None
        self._remember(info.first_offset, segment, segment.size)
        segment.commit(plan.extents)
        self.log_end_offset = info.last_offset + 1
        state = self.producer_state
        for append in plan.producers.values():
            state.update(append)
        for producer_id in plan.verified_producer_ids:
            state.end_verification(producer_id)
        if plan.completed:
            self._complete_transactions(segment, plan.completed)
        state.end_offset = self.log_end_offset
        if plan.flush is not None:
            self.complete_flush(plan.flush, now_ms)

    def _complete_transactions(
        self, segment: Segment, completed: list[CompletedTransaction]
    ) -> None:
        with self.storage():
            for transaction in completed:
                note_completed_transaction(self.producer_state, segment, transaction)

    # --- reading ---------------------------------------------------------------------------

    def read(
        self,
        start_offset: int,
        *,
        bytes_max: int,
        isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
        min_one_batch: bool = True,
    ) -> ReadResult:
        """Whole batches from the one that holds ``start_offset`` on, of one segment.

        The first one is returned also if it is larger than ``bytes_max``, unless that is not
        wanted. LogError OFFSET_OUT_OF_RANGE if the offset is not in the log.
        """
        if self.directory.offline_reason is not None:
            raise self.directory.storage_error()
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise LogError(
                Errors.OFFSET_OUT_OF_RANGE,
                f"offset {start_offset} is not within [{self.log_start_offset}, "
                f"{self.log_end_offset}]",
            )
        end_offset = self.end_offset(isolation)
        committed = isolation is FetchIsolation.TXN_COMMITTED
        if start_offset >= end_offset:
            return ReadResult(None, end_offset, [] if committed else None)
        try:
            region = self._read_region(start_offset, end_offset, bytes_max, min_one_batch)
            aborted = None
            if committed:
                aborted = self._aborted_in(start_offset, region) if region is not None else []
        except OSError as error:
            raise self.directory.fail(error) from error
        return ReadResult(region, end_offset, aborted)

    def _read_region(
        self, start_offset: int, end_offset: int, bytes_max: int, min_one_batch: bool
    ) -> SegmentRegion | None:
        start = self._position_of(start_offset)
        if start is None:
            return None
        segment, position = start
        end = segment.size
        if end_offset < self.log_end_offset:
            bound = self._position_of(end_offset)
            if bound is not None and bound[0] is segment:
                end = bound[1]
            elif bound is None or bound[0].base_offset < segment.base_offset:
                return None
        stop = segment.end_of_batches(position, bytes_max, end)
        if stop <= position and min_one_batch and position < end:
            stop = segment.end_of_first_batch(position)
        if stop <= position:
            return None
        return SegmentRegion(segment, position, stop - position)

    def _position_of(self, offset: int) -> tuple[Segment, int] | None:
        """Where the batch starts that holds ``offset``, or the first one behind it."""
        found = self._recent.get(offset)
        if found is not None:
            return found
        if offset == self.log_end_offset:
            active = self.segments.active
            return active, active.size
        segment = self.segments.floor(offset)
        while segment is not None:
            extent = segment.locate(offset)
            if extent is not None:
                self._remember(offset, segment, extent.position)
                return segment, extent.position
            segment = self.segments.higher(segment.base_offset)
        return None

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        recent = self._recent
        recent[offset] = (segment, position)
        if len(recent) > LOG_RECENT_POSITIONS_MAX:
            del recent[next(iter(recent))]

    def _aborted_in(self, start_offset: int, region: SegmentRegion) -> list[AbortedTransaction]:
        segment = region.segment
        upper = segment.offset_index.upper_bound_offset(region.position + region.length)
        if upper is None:
            following = self.segments.higher(segment.base_offset)
            upper = self.log_end_offset if following is None else following.base_offset
        return self.collect_aborted(start_offset, upper, segment)

    def collect_aborted(
        self, start_offset: int, upper_bound_offset: int, segment: Segment | None = None
    ) -> list[AbortedTransaction]:
        """The aborted transactions with records in the range, from the given segment on."""
        found: list[AbortedTransaction] = []
        if segment is None:
            segment = self.segments.floor(start_offset) or self.segments.first
        while segment is not None:
            aborted, complete = segment.transaction_index.collect(start_offset, upper_bound_offset)
            found += aborted
            if complete:
                break
            segment = self.segments.higher(segment.base_offset)
        return found

    def collect_aborted_for_cleaning(
        self, start_offset: int, end_offset: int
    ) -> list[AbortedTransaction]:
        """Aborts that a reader of this range has to know, also those that began before it."""
        segment = self.segments.floor(start_offset)
        return self.collect_aborted(self.log_start_offset, end_offset, segment)

    # --- offsets ---------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> int:
        """Everything below is decided and replicated."""
        unstable = self.producer_state.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    def end_offset(self, isolation: FetchIsolation) -> int:
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self.high_watermark
        if isolation is FetchIsolation.LOG_END:
            return self.log_end_offset
        return self.last_stable_offset

    def update_high_watermark(self, high_watermark: int) -> int:
        """Sets it, within the log; returns what it is now. Its owner decides when it may move."""
        bounded = min(max(high_watermark, self.log_start_offset), self.log_end_offset)
        self.high_watermark = bounded
        self.producer_state.replicated_to(bounded)
        return bounded

    def increment_log_start_offset(self, offset: int) -> bool:
        """Moves the start of the log forward; whether it moved.

        OFFSET_OUT_OF_RANGE above the high watermark. Durable with the next checkpoint
        (``LogDirectory.checkpoint_log_start_offsets``).
        """
        if offset > self.high_watermark:
            raise LogError(
                Errors.OFFSET_OUT_OF_RANGE,
                f"{offset} is above the high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.local_log_start_offset = max(self.local_log_start_offset, offset)
        self.leader_epochs.truncate_from_start(offset)
        self.producer_state.replicated_to(offset)
        self.producer_state.end_offset = max(self.producer_state.end_offset, offset)
        return True

    @property
    def size_in_bytes(self) -> int:
        return self.segments.size_in_bytes

    def update_config(self, config: LogConfig) -> None:
        """New settings count from the next append on; sealed segments stay as they are."""
        self.config = config
        self.segments.active.config = config

    # --- rolling and flushing --------------------------------------------------------------

    def roll(self, now_ms: int, expected_offset: int = 0) -> Segment:
        """Starts a new segment at the end of the log, or at ``expected_offset`` behind it.

        The old one still has to be flushed: ``needs_flush`` says so from now on.
        """
        base_offset = max(expected_offset, self.log_end_offset)
        active = self.segments.active
        if base_offset == active.base_offset:
            assert active.size == 0
            return active
        with self.storage():
            active.seal()
            segment = self.new_segment(base_offset, now_ms)
            self.producer_state.end_offset = base_offset
            self.take_snapshot()
        return segment

    def new_segment(self, base_offset: int, now_ms: int) -> Segment:
        jitter_ms_max = min(self.config.segment_jitter_ms, self.config.segment_ms)
        segment = Segment.create(
            self.directory.files,
            self.folder,
            base_offset,
            self.config,
            created_ms=now_ms,
            jitter_ms=self._random.randrange(jitter_ms_max) if jitter_ms_max else 0,
        )
        self.segments.add(segment)
        return segment

    def take_snapshot(self) -> None:
        """Writes the producer state at its end offset, unless there is such a snapshot."""
        offset = self.producer_state.end_offset
        if offset > self.last_snapshot_offset:
            entries = self.producer_state.producers.values()
            self.unsynced_files.append(self.snapshots.write(offset, entries))
            self.last_snapshot_offset = offset

    def needs_flush(self, now_ms: int) -> bool:
        """Whether the flush policy, or a roll, asks for a flush."""
        if self.recovery_point >= self.log_end_offset:
            return False
        if self.recovery_point < self.segments.active.base_offset:
            return True
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            return True
        return now_ms - self.last_flushed_ms >= self.config.flush_ms

    def flush_job(self) -> FlushJob:
        """What makes everything appended so far durable; run it, then ``complete_flush``."""
        return self._flush_job(self.log_end_offset, whole_active=False)

    def _flush_job(self, offset: int, *, whole_active: bool) -> FlushJob:
        if self.directory.offline_reason is not None:
            raise self.directory.storage_error()
        others, self.unsynced_files = self.unsynced_files, []
        epochs = self.leader_epochs.encode() if self.leader_epochs.dirty else None
        self.leader_epochs.dirty = False
        with self.storage():
            return FlushJob(
                self.directory.files,
                self.folder,
                offset,
                self.generation,
                self._unsynced_segments(),
                others,
                epochs,
                whole_active=whole_active,
                new_folder=self.is_new,
            )

    def _unsynced_segments(self) -> list[Segment]:
        """The active segment and those before it that a flush has not completed yet."""
        found = [self.segments.active]
        for segment in self.segments.newest_first():
            if segment is not found[0]:
                if segment.is_synced:
                    break
                found.append(segment)
        return found[::-1]

    @property
    def recovery_checkpoint(self) -> int:
        """Where recovery has to start: the recovery point, or inside an unsynced segment."""
        oldest = self._unsynced_segments()[0]
        if oldest.is_synced or oldest.size == 0:
            return self.recovery_point
        following = self.segments.higher(oldest.base_offset)
        end_offset = self.log_end_offset if following is None else following.base_offset
        return min(self.recovery_point, end_offset - 1)

    def complete_flush(self, job: FlushJob, now_ms: int) -> None:
        """After ``job.run`` has succeeded."""
        job.close(done=True)
        self.is_new = False
        if job.generation == self.generation and job.offset > self.recovery_point:
            self.recovery_point = job.offset
            self.last_flushed_ms = now_ms

    def fail_flush(self, job: FlushJob, error: OSError) -> StorageError:
        """After ``job.run`` has failed: the directory is offline. Returns the error to raise."""
        job.close(done=False)
        return self.directory.fail(error)

    def flush(self, now_ms: int, *, whole_active: bool = False) -> None:
        """Flushes at once, on the calling thread."""
        job = self._flush_job(self.log_end_offset, whole_active=whole_active)
        try:
            job.run()
        except OSError as error:
            raise self.fail_flush(job, error) from error
        self.complete_flush(job, now_ms)

    def close_cleanly(self, now_ms: int) -> None:
        """Makes the log durable as a whole, so that the next start needs no recovery."""
        with self.storage():
            self.segments.active.seal()
            self.take_snapshot()
        self.flush(now_ms, whole_active=True)
        self.close()

    def close(self) -> None:
        """Closes the files without writing anything."""
        self.is_closed = True
        for segment in self.segments:
            segment.close()
        for file in self.unsynced_files:
            file.close()
        self.unsynced_files.clear()

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Notes the topic of a log that does not know it, durable with the next flush."""
        assert self.topic_id is None
        with self.storage():
            self.unsynced_files.append(write_topic_id(self.directory.files, self.folder, topic_id))
        self.topic_id = topic_id

    def set_folder(self, folder: str) -> None:
        """Follows a rename of the folder."""
        self.folder = folder
        self.snapshots.set_folder(folder)
        for segment in self.segments:
            segment.set_folder(folder)

    def rest(self) -> None:
        """Closes the descriptors of all segments but the active one, where nobody uses them."""
        for segment in self.segments:
            if segment is not self.segments.active:
                segment.rest()

    @contextmanager
    def storage(self) -> Iterator[None]:
        """An OSError inside takes the directory offline."""
        try:
            yield
        except OSError as error:
            raise self.directory.fail(error) from error

    # --- removing --------------------------------------------------------------------------

    def remove_segments(self, segments: Iterable[Segment], now_ms: int) -> None:
        """Takes segments out of the log; their files go when readers have had time to finish."""
        with self.storage():
            for segment in segments:
                self.segments.remove(segment)
                self.doom(segment, now_ms)
        self.forget_positions()

    def doom(self, segment: Segment, now_ms: int, *, with_snapshot: bool = True) -> None:
        """Renames the files of a segment, and of its snapshot, out of the way."""
        deadline_ms = now_ms + self.config.file_delete_delay_ms
        segment.rename(DELETED_SUFFIX)
        self._doomed.append((deadline_ms, segment))
        if with_snapshot:
            snapshot_path = self.snapshots.mark_deleted(segment.base_offset)
            if snapshot_path is not None:
                self._doomed.append((deadline_ms, snapshot_path))

    def take_due(self, now_ms: int) -> list[str]:
        """Paths of removed files whose time has come, for the caller to unlink."""
        if not self._doomed:
            return []
        paths: list[str] = []
        for deadline_ms, thing in self._doomed:
            if deadline_ms > now_ms:
                continue
            if isinstance(thing, Segment):
                thing.close()
                paths += [thing.path(suffix) for suffix in SEGMENT_SUFFIXES]
            else:
                paths.append(thing)
        self._doomed = [entry for entry in self._doomed if entry[0] > now_ms]
        return paths

    def purge(self, now_ms: int) -> None:
        """Unlinks removed files whose time has come, at once."""
        with self.storage():
            for path in self.take_due(now_ms):
                unlink_if_exists(self.directory.files, path)

    def forget_positions(self) -> None:
        self._recent.clear()

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Removes every batch with records at or above ``offset``; whether there was any."""
        assert offset >= 0
        if self.directory.offline_reason is not None:
            raise self.directory.storage_error()
        if offset >= self.log_end_offset:
            # A leader that was elected and wrote nothing left an epoch that others do not know.
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            return False
        with self.storage():
            truncate_log(self, offset, now_ms)
        return True

    def truncate_fully_and_start_at(
        self, offset: int, now_ms: int, log_start_offset: int | None = None
    ) -> None:
        """Removes everything and goes on at ``offset``."""
        if self.directory.offline_reason is not None:
            raise self.directory.storage_error()
        with self.storage():
            restart_log(self, offset, now_ms, log_start_offset)
