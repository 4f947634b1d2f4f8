"""Which log is compacted next, and how far each has come.

`cleaner-offset-checkpoint` in each directory holds per log the first dirty offset: below it the
log is clean, each key at most once. It is written after a round has been swapped in. A crash before
that costs a round, not data: cleaning what is clean changes nothing.

A log is due when its dirty share exceeds `min.cleanable.dirty.ratio`, or when a record is dirty
for longer than `max.compaction.lag.ms`. The dirtiest goes first. A log whose round fails on
damaged records is left alone until the next start, as in Kafka; others go on.

The map of a round takes up to `log.cleaner.dedupe.buffer.size` bytes, less if the dirty part has
fewer records. When it is full the round ends there, and the next begins where it ended.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import LOGS_EXAMINED_PER_SLICE_MAX
from kaa.log.compaction import Compaction, CompactionAbortedError, CompactionRange
from kaa.log.errors import DamagedLogError, StorageError
from kaa.log.jobs import CheckpointJob
from kaa.log.names import CLEANER_OFFSET_CHECKPOINT_FILE
from kaa.records.compaction import OffsetMap
from kaa.records.errors import RecordsError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from kaa.log.config import LogManagerConfig
    from kaa.log.dirs import LogDirectory
    from kaa.log.jobs import Job
    from kaa.log.log import UnifiedLog
    from kaa.log.segment import Segment
    from kaa.model.topics import TopicPartition

_MAP_SLOTS_MIN = 64
_MAP_SLOT_BYTES = 24


class LogToClean(NamedTuple):
    log: UnifiedLog
    dirty: CompactionRange
    clean_bytes: int
    cleanable_bytes: int
    # A record waits for longer than max.compaction.lag.ms.
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        if self.cleanable_bytes == 0:
            return False
        return self.is_overdue or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


class LogCleaner:
    """Compacts the logs of a broker, one at a time. The seed keeps keys from being guessed."""

    def __init__(
        self, logs: Mapping[TopicPartition, UnifiedLog], config: LogManagerConfig, seed: bytes
    ) -> None:
        self._logs = logs
        self.config = config
        self._seed = seed
        self._first_dirty: dict[TopicPartition, int] = {}
        # Read and written since the start, for the throttle.
        self.moved_bytes = 0
        # Logs with damaged records; nobody cleans them before the next start.
        self.uncleanable: set[TopicPartition] = set()

    def work(self, now_ms: int) -> Generator[Job | None, None, None]:
        """Cleans every log that is due, in slices; run a job that comes out before going on. None
        comes where others should have a turn.
        """
        due: list[LogToClean] = []
        for found in self.find_due(now_ms):
            if found is None:
                yield None
            else:
                due.append(found)
        for to_clean in sorted(due, key=lambda one: one.dirty_ratio, reverse=True):
            if self._may_clean(to_clean.log):
                yield from self.clean(to_clean, now_ms)

    def find_due(self, now_ms: int) -> Iterator[LogToClean | None]:
        """The logs that are due, and None where others should have a turn."""
        logs = list(self._logs.values()) if self.config.log_cleaner_enable else []
        for number, log in enumerate(logs, 1):
            if self._may_clean(log):
                found = self._examine_readable(log, now_ms)
                if found is not None and found.is_due:
                    yield found
            if number % LOGS_EXAMINED_PER_SLICE_MAX == 0:
                yield None

    def _may_clean(self, log: UnifiedLog) -> bool:
        return (
            log.config.compact
            and log.directory.is_online
            and not log.is_cleaning
            and not log.is_moving
            and log.partition not in self.uncleanable
            and self._logs.get(log.partition) is log
        )

    def _examine_readable(self, log: UnifiedLog, now_ms: int) -> LogToClean | None:
        try:
            with log.reading():
                return self.examine(log, now_ms)
        except (DamagedLogError, StorageError):
            # The directory is offline, a file could not be opened now, or the log is damaged.
            return None

    def examine(self, log: UnifiedLog, now_ms: int) -> LogToClean:
        """What of a log is clean, dirty, and not to be touched yet."""
        first_dirty = self._first_dirty_offset(log)
        uncleanable = max(first_dirty, _first_uncleanable_offset(log, first_dirty, now_ms))
        # Segments are cleaned whole, so the one that holds this offset is left alone.
        holding = log.segments.floor(uncleanable)
        first_uncleanable = (holding or log.segments.first).base_offset
        clean_bytes = sum(s.size for s in log.segments if s.base_offset < first_dirty)
        cleanable = log.segments.between(min(first_dirty, first_uncleanable), first_uncleanable)
        return LogToClean(
            log,
            CompactionRange(first_dirty, first_uncleanable),
            clean_bytes,
            sum(s.size for s in cleanable),
            _compaction_delay_ms(log, first_dirty, now_ms) > 0,
        )

    def clean(self, to_clean: LogToClean, now_ms: int) -> Generator[Job | None, None, None]:
        """One round over one log."""
        log, dirty = to_clean.log, to_clean.dirty
        load_factor = self.config.log_cleaner_io_buffer_load_factor
        offset_map = OffsetMap(offset_map_bytes(self.config, dirty), self._seed, load_factor)
        compaction = Compaction(log, dirty, offset_map, now_ms)
        moved_bytes = self.moved_bytes
        log.is_cleaning = True
        try:
            with log.storage(), closing(compaction.run()) as jobs:
                for job in jobs:
                    yield job
                    self.moved_bytes = moved_bytes + compaction.moved_bytes
            self._first_dirty[log.partition] = compaction.end_offset
            yield self.checkpoint_job(log.directory)
        except (CompactionAbortedError, StorageError):
            return
        except RecordsError:
            self.uncleanable.add(log.partition)
        finally:
            log.is_cleaning = False

    # --- progress

    def _first_dirty_offset(self, log: UnifiedLog) -> int:
        """Where the last round ended; the start of the log if that is not in it any more."""
        offset = self._first_dirty.get(log.partition, log.log_start_offset)
        if log.truncated_offset is not None:
            offset = min(offset, log.truncated_offset)
            self._first_dirty[log.partition] = offset
            log.truncated_offset = None
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return log.log_start_offset
        return offset

    def cleaned_offset(self, partition: TopicPartition) -> int:
        """Below it gaps of a log are natural, whatever its policy is today."""
        return self._first_dirty.get(partition, 0)

    def load_checkpoint(self, directory: LogDirectory, table: dict[TopicPartition, int]) -> None:
        """Takes the entries of the logs that are there; those of others would meet a successor.
        That of a copy counts where its source has none, and may be in its place by now.
        """
        known = directory.every_log
        for partition, offset in table.items():
            if partition in directory.logs:
                self._first_dirty[partition] = offset
            elif partition in known:
                self._first_dirty.setdefault(partition, offset)
        if not known.keys() >= table.keys():
            self.write_checkpoint(directory)

    def _offsets(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        """A copy has the gaps of its source, and takes its place between two checkpoints."""
        known = directory.every_log
        return {p: o for p, o in self._first_dirty.items() if p in known}

    def checkpoint_job(self, directory: LogDirectory) -> CheckpointJob:
        return CheckpointJob(directory, CLEANER_OFFSET_CHECKPOINT_FILE, self._offsets(directory))

    def write_checkpoint(self, directory: LogDirectory) -> None:
        directory.write_checkpoint(CLEANER_OFFSET_CHECKPOINT_FILE, self._offsets(directory))

    def forget(self, partition: TopicPartition) -> None:
        """A log was deleted; one of the same name starts over."""
        self.uncleanable.discard(partition)
        self._first_dirty.pop(partition, None)


def offset_map_bytes(config: LogManagerConfig, dirty: CompactionRange) -> int:
    """Memory for the keys of a range: as much as its records can need, within the setting."""
    records = dirty.first_uncleanable_offset - dirty.first_dirty_offset
    slots = max(_MAP_SLOTS_MIN, int(records / config.log_cleaner_io_buffer_load_factor) + 1)
    return min(config.log_cleaner_dedupe_buffer_size, slots * _MAP_SLOT_BYTES)


def _first_uncleanable_offset(log: UnifiedLog, first_dirty: int, now_ms: int) -> int:
    """The active segment, undecided transactions and young records stay as they are."""
    bound = min(log.last_stable_offset, log.segments.active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in _dirty_segments(log, first_dirty):
            if segment.largest_timestamp > now_ms - lag_ms:
                return min(bound, segment.base_offset)
    return bound


def _compaction_delay_ms(log: UnifiedLog, first_dirty: int, now_ms: int) -> int:
    """For how long the oldest dirty record should have been compacted already."""
    clean_until_ms = now_ms - max(log.config.max_compaction_lag_ms, 0)
    if clean_until_ms <= 0:
        return 0
    timestamps = [s.first_timestamp for s in _dirty_segments(log, first_dirty)]
    oldest = min((t for t in timestamps if t > 0), default=clean_until_ms)
    return max(0, clean_until_ms - oldest)


def _dirty_segments(log: UnifiedLog, first_dirty: int) -> list[Segment]:
    """The segments from the first dirty offset on, without the active one."""
    return log.segments.between(first_dirty, log.segments.active.base_offset)
