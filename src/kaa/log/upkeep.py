"""What logs need while they run: checkpoints, flushes by time, retention, removals.

The owner calls `tick` every second or so. It is a generator, since a node may have ten thousand
logs: it gives jobs for the owner to run off the loop, and None where others should have a turn.

All waiting goes by the clock that never jumps; only the age of records is measured by the date. A
set date therefore neither stops a duty nor hurries it.

Each checkpoint is a table of the whole directory. Its number is taken before the first entry is
read: a table that a truncation writes meanwhile has a higher one and stays (`kaa.log.dirs`).
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import (
    LOGS_PER_SLICE_MAX,
    SEGMENTS_REMOVED_PER_TURN_MAX,
    TICK_LOGS_MAX,
    TICK_RETAINED_LOGS_MAX,
)
from kaa.log.errors import CorruptFileError, DamagedLogError, StorageError
from kaa.log.jobs import (
    FlushLogJob,
    RemoveFilesJob,
    RemoveFolderJob,
    checkpoint_in_pieces,
    recovery_checkpoint,
)
from kaa.log.names import (
    DELETE_FOLDER_SUFFIX,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
    STRAY_FOLDER_SUFFIX,
    parse_folder_name,
)
from kaa.log.properties import read_topic_id
from kaa.log.retention import delete_old_segments
from kaa.model.steady_date import SteadyDate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaa.log.cleaner import LogCleaner
    from kaa.log.config import LogManagerConfig
    from kaa.log.dirs import LogDirectory
    from kaa.log.jobs import Job
    from kaa.log.log import UnifiedLog
    from kaa.model.topics import TopicPartition
    from kaa.wire.primitives import Uuid


class _Folder(NamedTuple):
    """A deleted log, whose folder goes when the time has come."""

    deadline_ms: int
    directory: LogDirectory
    path: str


class LogUpkeep:
    """Carries out the periodic duties of all logs. Owned by the log manager, which passes `tick`
    on.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, UnifiedLog],
        directories: Sequence[LogDirectory],
        config: LogManagerConfig,
        cleaner: LogCleaner,
        futures: Mapping[TopicPartition, UnifiedLog],
    ) -> None:
        self._logs = logs
        self._futures = futures
        self._cleaner = cleaner
        self._directories = directories
        self.config = config
        self._steady_date = SteadyDate()
        self._doomed: list[_Folder] = []
        self._deadlines_ms: dict[str, int] = {}
        # By duty the logs that are left of its round.
        self._due: dict[str, deque[UnifiedLog]] = {}
        self._visits: Iterator[UnifiedLog] = iter(())

    def doom(self, directory: LogDirectory, path: str, delay_ms: int, now_ms: int) -> None:
        """The folder of a deleted log is removed after the delay."""
        self._doomed.append(_Folder(directory.steady_ms(now_ms) + delay_ms, directory, path))

    def keep_deleted(self, topic_ids: Mapping[TopicPartition, Uuid]) -> list[str]:
        """Puts the folders of deleted logs of these partitions aside; where they are then."""
        kept: list[str] = []
        for folder in tuple(self._doomed) if topic_ids else ():
            directory = folder.directory
            try:
                if directory.is_online and _is_of(folder, topic_ids):
                    aside = folder.path.removesuffix(DELETE_FOLDER_SUFFIX) + STRAY_FOLDER_SUFFIX
                    directory.files.rename(folder.path, aside)
                    self._doomed.remove(folder)
                    kept.append(aside)
            except OSError as error:
                directory.fail_unless_short(error)
        return kept

    def tick(self, now_ms: int) -> Iterator[Job | None]:
        """Everything that is due; `now_ms` is the date."""
        config, steady_ms = self.config, self._directories[0].steady_ms(now_ms)
        expiry_ms = config.producer_id_expiration_ms
        date_ms = self._steady_date.at(now_ms, steady_ms, expiry_ms)
        yield from self._checkpoints(steady_ms)
        interval_ms = config.producer_id_expiration_check_interval_ms
        for number, log in enumerate(self._due_logs("expiration", interval_ms, steady_ms), 1):
            yield from log.producer_state.remove_expired(date_ms)
            if number % LOGS_PER_SLICE_MAX == 0:
                yield None
        yield None
        interval_ms = config.log_retention_check_interval_ms
        for number, log in enumerate(self._due_logs("retention", interval_ms, steady_ms)):
            yield from self._retain(log, now_ms)
            if number % 20 == 19:
                yield None
        jobs: list[Job] = []
        for number, log in enumerate(self._next_logs()):
            self._visit(log, now_ms, jobs)
            if number % LOGS_PER_SLICE_MAX == LOGS_PER_SLICE_MAX - 1:
                yield None
        yield from jobs
        yield from self._remove_folders(steady_ms)

    # --- checkpoints

    def _checkpoints(self, steady_ms: int) -> Iterator[Job | None]:
        config = self.config
        interval_ms = config.log_flush_offset_checkpoint_interval_ms
        are_points_due = self._begin_if_due("recovery points", interval_ms, steady_ms)
        interval_ms = config.log_flush_start_offset_checkpoint_interval_ms
        are_starts_due = self._begin_if_due("start offsets", interval_ms, steady_ms)
        interval_ms = config.replica_high_watermark_checkpoint_interval_ms
        are_marks_due = self._begin_if_due("high watermark", interval_ms, steady_ms)
        return self._write_due(are_points_due, are_starts_due, are_marks_due)

    def forget_deleted(self) -> Iterator[Job | None]:
        """The tables of the directories that had logs deleted, now; no other is written."""
        return self._write_due(are_points_due=False, are_starts_due=False, are_marks_due=False)

    def _write_due(
        self, are_points_due: bool, are_starts_due: bool, are_marks_due: bool
    ) -> Iterator[Job | None]:
        for directory in self._directories:
            # A deleted log must not leave an entry for its successor for longer than a moment.
            directory.drop_settled()
            has_stale = bool(directory.stale)
            if are_points_due or has_stale:
                name = RECOVERY_POINT_CHECKPOINT_FILE
                yield from checkpoint_in_pieces(directory, name, recovery_checkpoint)
            if are_starts_due or has_stale:
                name = LOG_START_OFFSET_CHECKPOINT_FILE
                yield from checkpoint_in_pieces(directory, name, _log_start)
            if has_stale and directory.is_online:
                yield self._cleaner.checkpoint_job(directory)
            if are_marks_due or has_stale:
                name = REPLICATION_OFFSET_CHECKPOINT_FILE
                yield from checkpoint_in_pieces(directory, name, _high_watermark)

    def checkpoint_starts(self, directory: LogDirectory) -> Iterator[Job | None]:
        """The table of log start offsets, now."""
        return checkpoint_in_pieces(directory, LOG_START_OFFSET_CHECKPOINT_FILE, _log_start)

    # --- duties

    def _begin_if_due(self, what: str, interval_ms: int, steady_ms: int) -> bool:
        """Begins another interval if the last one has passed; whether it had. The first call begins
        the first one.
        """
        deadline_ms = self._deadlines_ms.setdefault(what, steady_ms + interval_ms)
        if steady_ms < deadline_ms:
            return False
        self._deadlines_ms[what] = steady_ms + interval_ms
        return True

    def _due_logs(self, what: str, interval_ms: int, steady_ms: int) -> Iterator[UnifiedLog]:
        """Every log once per interval, some at each tick, so that a tick stays short."""
        left = self._due.setdefault(what, deque())
        if not left and self._begin_if_due(what, interval_ms, steady_ms):
            left.extend(self._logs.values())
        for _ in range(min(len(left), TICK_RETAINED_LOGS_MAX)):
            log = left.popleft()
            if self._logs.get(log.partition) is log:
                yield log

    def _next_logs(self) -> list[UnifiedLog]:
        """The next few logs in turn, so that one tick stays short with very many of them, also when
        most of them were deleted since the round began.
        """
        some = list(islice(self._visits, TICK_LOGS_MAX))
        if not some:
            self._visits = iter([*self._logs.values(), *self._futures.values()])
            some = list(islice(self._visits, TICK_LOGS_MAX))
        return [
            log
            for log in some
            if log in {self._logs.get(log.partition), self._futures.get(log.partition)}
        ]

    def _visit(self, log: UnifiedLog, now_ms: int, jobs: list[Job]) -> None:
        if not log.directory.is_online:
            return
        try:
            if log.needs_flush(now_ms):
                jobs.append(FlushLogJob(log))
        except (DamagedLogError, StorageError):
            return
        paths = log.take_due(now_ms)
        if paths:
            jobs.append(RemoveFilesJob(log, paths))

    def _retain(self, log: UnifiedLog, now_ms: int) -> Iterator[None]:
        while True:
            if self._logs.get(log.partition) is not log:
                return
            if not log.directory.is_online or log.is_cleaning:
                return
            try:
                with log.storage():
                    deleted = delete_old_segments(log, now_ms)
            except (DamagedLogError, StorageError):
                return
            if deleted < SEGMENTS_REMOVED_PER_TURN_MAX:
                log.rest()
                return
            yield

    def _remove_folders(self, steady_ms: int) -> Iterator[Job | None]:
        due = [folder for folder in self._doomed if folder.deadline_ms <= steady_ms]
        if due:
            self._doomed = [folder for folder in self._doomed if folder.deadline_ms > steady_ms]
        for folder in due:
            if folder.directory.is_online:
                yield RemoveFolderJob(folder.directory, folder.path)


def _is_of(folder: _Folder, topic_ids: Mapping[TopicPartition, Uuid]) -> bool:
    parsed = parse_folder_name(folder.path.rpartition("/")[2])
    if parsed is None or parsed.partition not in topic_ids:
        return False
    try:
        found = read_topic_id(folder.directory.files, folder.path)
    except CorruptFileError:
        return True
    return found == topic_ids[parsed.partition]


def _log_start(log: UnifiedLog) -> int | None:
    """Logs that start at their first segment need no entry, but tiered ones may start before it."""
    start = log.log_start_offset
    return start if log.is_tiered or start > log.segments.first.base_offset else None


def _high_watermark(log: UnifiedLog) -> int:
    return log.high_watermark
