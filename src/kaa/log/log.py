"""A log: the append-only sequence of batches of one partition replica on this broker.

The offsets of a log, each at or above the one before it:

| offset | what it says |
|---|---|
| log start offset | the first that a client may read (DeleteRecords, retention) |
| local log start | the first that is on this disk (below it: tiered storage) |
| last stable offset | readers of committed data stop here |
| high watermark | readers stop here; set by the owner, the partition |
| log end offset | the next to be written |
| recovery point | everything below is on stable storage; at most the log end offset |

A log has its segments, leader epochs and producers, reads and rolls. What changes more of it than
that works on it from outside, each kind in a module of its own: `append`, `truncation`, `rebuild`,
`retention`, `compaction`. They call the log; it calls none of them.

Nothing here waits, locks or runs in the background: the owner calls, in order, from one loop, and
hands in the time. Long work comes as jobs (`flush_job`), as writes on the thread of the directory
(`kaa.log.pending`) or as generators (`kaa.log.recovery`, `kaa.log.cleaner`). An error of the
disk takes the whole directory offline (`kaa.log.dirs`).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kaa.limits import PRODUCERS_WRITTEN_ON_LOOP_MAX
from kaa.log.errors import LogError
from kaa.log.local_log import LocalLog
from kaa.log.properties import write_topic_id
from kaa.records.errors import CorruptRecordsError
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from kaa.log.config import LogConfig
    from kaa.log.local_log import LogContents, LogPlace
    from kaa.log.pending import PendingAppend
    from kaa.log.segment import Segment, SegmentRegion
    from kaa.log.transaction_index import AbortedTransaction
    from kaa.log.truncation import PendingTruncation
    from kaa.model.seams import RandomSource
    from kaa.wire.primitives import Uuid


class FetchIsolation(Enum):
    """How far a reader may see."""

    # Replicas.
    LOG_END = "log end"
    # Consumers that read uncommitted data.
    HIGH_WATERMARK = "high watermark"
    # Consumers that read committed data.
    TXN_COMMITTED = "committed"

    @classmethod
    def of(cls, replica_id: int, isolation_level: int) -> FetchIsolation:
        """How far the sender of a request may see; ids of consumers are negative."""
        if replica_id >= 0:
            return cls.LOG_END
        return cls.TXN_COMMITTED if isolation_level == 1 else cls.HIGH_WATERMARK


class ReadResult:
    """Batches to send. If there is a region, release it when they are sent."""

    __slots__ = ("aborted", "end_offset_bound", "region")

    def __init__(
        self,
        region: SegmentRegion | None,
        end_offset_bound: int,
        aborted: list[AbortedTransaction] | None,
    ) -> None:
        # None if there is nothing to read (yet).
        self.region = region
        # Where reading had to stop: the high watermark, last stable or log end offset.
        self.end_offset_bound = end_offset_bound
        # Aborted transactions in the range; None unless only committed data was asked for.
        self.aborted = aborted


class UnifiedLog(LocalLog):
    """The log of one replica, as leader or follower. Called from one loop, in order; a second
    append waits for a pending one to settle. Made by `kaa.log.recovery.load_log`.
    """

    def __init__(
        self,
        place: LogPlace,
        contents: LogContents,
        config: LogConfig,
        random: RandomSource,
        *,
        verify_transactions: bool = True,
        now_ms: int = 0,
    ) -> None:
        super().__init__(place, contents, config, random, now_ms)
        self.topic_id = contents.topic_id
        self.producer_state = contents.producer_state
        self.log_start_offset = contents.log_start_offset
        first_offset = contents.segments.first.base_offset
        self.local_log_start_offset = max(contents.log_start_offset, first_offset)
        self.high_watermark = contents.log_start_offset
        self.verify_transactions = verify_transactions
        snapshots = contents.snapshots.offsets
        self.last_snapshot_offset = snapshots[-1] if snapshots else 0
        # The last offset that is known to be in remote storage; -1 for none.
        self.copied_offset = -1
        # Whether a round of compaction is under way; retention waits for it.
        self.is_cleaning = False
        # A write or a cut that is under way off the loop; whatever comes next has to settle it.
        self.pending: PendingAppend | PendingTruncation | None = None
        # The lowest end that the log was cut to since the cleaner last looked.
        self.truncated_offset: int | None = None
        # The lowest end that the log was cut to and a future log of it has not followed yet.
        self.unfollowed_cut_offset: int | None = None
        # Whether there is a future log that follows this one; compaction waits for it.
        self.is_moving = False

    @property
    def is_tiered(self) -> bool:
        """Whether closed segments go to remote storage, so that the log may start before the first
        local one.
        """
        return self.config.remote_storage_enable

    def settle(self) -> None:
        """Waits for the write that is under way, if there is one."""
        if self.pending is not None:
            self.pending.settle()

    def flushes_at(self, end_offset: int) -> bool:
        """Whether an append up to this offset would be flushed with it."""
        return end_offset - self.recovery_point >= self.config.flush_messages

    # --- reading

    def read(
        self,
        start_offset: int,
        *,
        bytes_max: int,
        isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
        min_one_batch: bool = True,
    ) -> ReadResult:
        """Whole batches from the one that holds `start_offset` on, of one segment.

        The first one is returned also if it is larger than `bytes_max`, unless that is not
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
        if start_offset < self.local_log_start_offset:
            raise LogError(
                Errors.OFFSET_MOVED_TO_TIERED_STORAGE,
                f"offset {start_offset} is below the local start {self.local_log_start_offset}",
            )
        end_offset = self.end_offset(isolation)
        committed = isolation is FetchIsolation.TXN_COMMITTED
        if start_offset >= end_offset:
            return ReadResult(None, end_offset, [] if committed else None)
        region = None
        try:
            region = self.read_region(start_offset, end_offset, bytes_max, min_one_batch)
            aborted = None
            if committed:
                aborted = self._aborted_in(start_offset, region) if region is not None else []
        except OSError as error:
            if region is not None:
                region.release()
            raise self.failed(error, is_reading=True) from error
        except CorruptRecordsError as error:
            # There is no region then: nothing after it looks at batches.
            raise self.damaged(error) from error
        return ReadResult(region, end_offset, aborted)

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

    # --- offsets

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
        if self.producer_state.unreplicated:
            self.producer_state.replicated_to(bounded)
        return bounded

    def increment_log_start_offset(self, offset: int) -> bool:
        """Moves the start of the log forward; whether it moved.

        OFFSET_OUT_OF_RANGE above the high watermark. Durable with the next checkpoint
        (`LogDirectory.checkpoint_log_start_offsets`).
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

    # --- rolling and flushing

    def roll(self, now_ms: int, expected_offset: int = 0) -> Segment:
        """Starts a new segment at the end of the log, or at `expected_offset` after it.

        The old one still has to be flushed: `needs_flush` says so from now on.
        """
        assert self.pending is None
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

    def take_snapshot(self) -> None:
        """Writes the producer state at its end offset, unless there is such a snapshot. A large
        one is written by the next flush; without it recovery only takes longer.
        """
        offset = self.producer_state.end_offset
        if offset > self.last_snapshot_offset:
            state = self.producer_state
            if len(state.producers) > PRODUCERS_WRITTEN_ON_LOOP_MAX:
                self.unwritten_snapshots.append((offset, state.freeze()))
            else:
                path = self.snapshots.write(offset, state.producers.values())
                self.unsynced_files.append(path)
            self.last_snapshot_offset = offset

    def close_cleanly(self, now_ms: int) -> None:
        """Makes the log durable as a whole, so that the next start needs no recovery."""
        self.settle()
        if not self.is_clean:
            with self.storage():
                self.segments.active.seal()
                self.take_snapshot()
            self.flush(now_ms, whole_active=True)
        self.close()

    def close_when_settled(self) -> None:
        """Closes the files without waiting for a write that is under way."""
        if self.pending is None:
            self.close()
        else:
            self.is_closed = True
            self.pending.when_settled(super().close)

    def close(self) -> None:
        """Closes the files without writing anything more."""
        self.settle()
        super().close()

    def assign_topic_id(self, topic_id: Uuid) -> None:
        """Notes the topic of a log that does not know it, durable with the next flush."""
        assert self.topic_id is None
        with self.storage():
            self.unsynced_files.append(write_topic_id(self.directory.files, self.folder, topic_id))
        self.topic_id = topic_id
