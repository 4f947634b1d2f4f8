"""All logs of a broker, over all its directories.

Start: each directory is locked, its clean-shutdown marker read and removed (durably, before any
log is loaded, so that a crash while loading is not taken for a clean stop), its checkpoints read
and its logs loaded one after the other. ``start`` is a generator, since recovery may take long.

While running, the owner calls ``tick`` every second or so. It applies retention, takes care of
expired producers and idle descriptors, and returns jobs (flushes, checkpoints, removals) for the
owner to run off the loop. Compaction is work of its own: ``cleaner.work``, every
log.cleaner.backoff.ms. What a truncation or a deletion lowers in a checkpoint is written at once.

Stop: every log is flushed and closed, checkpoints are written, then the marker.

A directory that fails goes offline alone, at start as later. Its logs stay known, since their
replicas are here, but every operation on them is refused.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from kaa.limits import TICK_LOGS_MAX, TICK_RETAINED_LOGS_MAX
from kaa.log.cleaner import LogCleaner
from kaa.log.dirs import LogDirectory
from kaa.log.errors import LogError, StorageError
from kaa.log.files import TEMPORARY_SUFFIX
from kaa.log.jobs import CheckpointJob, FlushLogJob, RemoveJob
from kaa.log.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT_FILE,
    DELETE_FOLDER_SUFFIX,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
    STRAY_FOLDER_SUFFIX,
    marked_folder_name,
    parse_folder_name,
)
from kaa.log.properties import read_clean_shutdown, remove_clean_shutdown, write_clean_shutdown
from kaa.log.recovery import LoadOptions, create_log, load_log
from kaa.log.retention import delete_old_segments
from kaa.wire.errors import Errors
from kaa.wire.primitives import Uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from random import Random

    from kaa.log.config import LogConfig, LogManagerConfig
    from kaa.log.files import Files
    from kaa.log.jobs import Job
    from kaa.log.log import UnifiedLog
    from kaa.log.names import TopicPartition
    from kaa.log.recovery import RecoveryProgress

METADATA_TOPIC = "__cluster_metadata"
"""Its log belongs to the quorum, which loads it by itself."""
_LEFT_OVERS = {
    name + TEMPORARY_SUFFIX
    for name in (
        CLEAN_SHUTDOWN_FILE,
        CLEANER_OFFSET_CHECKPOINT_FILE,
        LOG_START_OFFSET_CHECKPOINT_FILE,
        META_PROPERTIES_FILE,
        RECOVERY_POINT_CHECKPOINT_FILE,
        REPLICATION_OFFSET_CHECKPOINT_FILE,
    )
}
"""What a crash leaves while one of these is replaced."""


class LogManager:
    """One owner for all logs; see the module."""

    def __init__(
        self,
        files: Files,
        paths: Sequence[str],
        config: LogManagerConfig,
        random: Random,
        topic_config: Callable[[str], LogConfig],
        on_offline: Callable[[LogDirectory], None] | None = None,
    ) -> None:
        self._files = files
        self._config = config
        self._random = random
        self._topic_config = topic_config
        self.directories = [LogDirectory(files, path, on_offline=on_offline) for path in paths]
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        self.cleaner = LogCleaner(self.logs, config, random.randbytes(16))
        self.clean_broker_epochs: dict[str, int | None] = {}
        """Per directory the broker epoch of the last stop, None if that was not clean."""
        self.ignored_folders: list[str] = []
        """Folders in log directories that are no logs; left alone, for the owner to report."""
        self._doomed_folders: list[tuple[int, LogDirectory, str]] = []
        self._deadlines_ms: dict[str, int] = {}
        self._due: dict[str, deque[UnifiedLog]] = {}
        """By duty the logs that are left of its round."""
        self._visits: Iterator[UnifiedLog] = iter(())
        self._is_locked = False

    # --- start -----------------------------------------------------------------------------

    def lock(self) -> None:
        """Takes the directories for this process; BlockingIOError if another one uses one."""
        self._is_locked = True
        for directory in self.directories:
            try:
                self._files.make_directory(directory.path)
                directory.take_lock()
            except BlockingIOError:
                self.release_locks()
                raise
            except OSError as error:
                directory.fail(error)

    def start(self, now_ms: int) -> Iterator[RecoveryProgress]:
        """Loads everything, and takes the directories first where ``lock`` was not called."""
        if not self._is_locked:
            self.lock()
        for directory in self.directories:
            if directory.is_online:
                try:
                    yield from self._load_directory(directory, now_ms)
                except OSError as error:
                    directory.fail(error)
                except StorageError:
                    continue
        if not self.online_directories:
            self.release_locks()
            raise StorageError("no log directory can be used")

    def _load_directory(self, directory: LogDirectory, now_ms: int) -> Iterator[RecoveryProgress]:
        clean_epoch = read_clean_shutdown(self._files, directory.path)
        self.clean_broker_epochs[directory.path] = clean_epoch
        remove_clean_shutdown(self._files, directory.path)
        if clean_epoch is None:
            self._files.sync_directory(directory.path)
        recovery_points = directory.read_checkpoint(RECOVERY_POINT_CHECKPOINT_FILE)
        start_offsets = directory.read_checkpoint(LOG_START_OFFSET_CHECKPOINT_FILE)
        high_watermarks = directory.read_checkpoint(REPLICATION_OFFSET_CHECKPOINT_FILE)
        for partition, folder in self._find_logs(directory, now_ms):
            options = LoadOptions(
                now_ms=now_ms,
                clean=clean_epoch is not None,
                recovery_point=recovery_points.get(partition, 0),
                log_start_offset=start_offsets.get(partition, 0),
                manager=self._config,
            )
            config = self._topic_config(partition.topic)
            log = yield from load_log(directory, folder, partition, config, self._random, options)
            log.update_high_watermark(high_watermarks.get(partition, 0))
            self._add(log)
        if not directory.logs.keys() >= recovery_points.keys() | start_offsets.keys():
            # An entry of a deleted log would be taken for one of its successor.
            directory.checkpoint_recovery_points()
            directory.checkpoint_log_start_offsets()
        self.cleaner.load_checkpoint(directory)

    def _find_logs(
        self, directory: LogDirectory, now_ms: int
    ) -> Iterator[tuple[TopicPartition, str]]:
        for name in self._files.list_directory(directory.path):
            folder = f"{directory.path}/{name}"
            if name in _LEFT_OVERS:
                self._files.unlink(folder)
            if not self._files.is_directory(folder):
                continue
            parsed = parse_folder_name(name)
            if parsed is None or parsed.mark in {"future", "stray"}:
                self.ignored_folders.append(folder)
            elif parsed.mark == "delete":
                delay_ms = self._topic_config(parsed.partition.topic).file_delete_delay_ms
                self._doomed_folders.append((now_ms + delay_ms, directory, folder))
            elif parsed.partition.topic != METADATA_TOPIC:
                if parsed.partition in self.logs:
                    raise StorageError(f"{parsed.partition} is in two log directories")
                yield parsed.partition, folder

    def _add(self, log: UnifiedLog) -> None:
        self.logs[log.partition] = log
        log.directory.logs[log.partition] = log

    # --- logs ------------------------------------------------------------------------------

    @property
    def online_directories(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.is_online]

    def get(self, partition: TopicPartition) -> UnifiedLog | None:
        return self.logs.get(partition)

    def get_or_create(
        self,
        partition: TopicPartition,
        topic_id: Uuid | None,
        now_ms: int,
        *,
        directory_id: Uuid | None = None,
    ) -> UnifiedLog:
        """The log of the partition, a new one in the given or the least loaded directory.

        INCONSISTENT_TOPIC_ID if there is a log of another topic with that name,
        KAFKA_STORAGE_ERROR if no directory takes it.
        """
        log = self.logs.get(partition)
        if log is not None:
            self._check_topic_id(log, topic_id)
            return log
        config = self._topic_config(partition.topic)
        options = LoadOptions(now_ms=now_ms, manager=self._config)
        for directory in self._candidates(directory_id):
            try:
                log = create_log(directory, partition, topic_id, config, self._random, options)
            except OSError as error:
                directory.fail(error)
            else:
                self._add(log)
                return log
        raise StorageError(f"no log directory can take {partition}")

    def _check_topic_id(self, log: UnifiedLog, topic_id: Uuid | None) -> None:
        if log.topic_id is None and topic_id is not None:
            log.assign_topic_id(topic_id)
        elif topic_id not in {None, log.topic_id}:
            raise LogError(
                Errors.INCONSISTENT_TOPIC_ID,
                f"{log.partition} belongs to topic {log.topic_id}, not {topic_id}",
            )

    def _candidates(self, directory_id: Uuid | None) -> list[LogDirectory]:
        online = self.online_directories
        chosen = [d for d in online if directory_id is not None and d.directory_id == directory_id]
        return chosen or sorted(online, key=lambda directory: len(directory.logs))

    def update_topic_config(self, topic: str) -> None:
        """Takes over changed settings of a topic."""
        config = self._topic_config(topic)
        for log in self.logs.values():
            if log.partition.topic == topic:
                log.update_config(config)

    def delete(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Removes logs. Their folders are renamed at once and go after file.delete.delay.ms."""
        self._retire(partitions, DELETE_FOLDER_SUFFIX, now_ms)

    def mark_strays(
        self, is_ours: Callable[[TopicPartition, Uuid | None], bool], now_ms: int
    ) -> list[TopicPartition]:
        """Puts logs aside that the cluster does not know of; nothing of them is deleted."""
        strays = [p for p, log in self.logs.items() if not is_ours(p, log.topic_id)]
        self._retire(strays, STRAY_FOLDER_SUFFIX, now_ms)
        return strays

    def _retire(self, partitions: Iterable[TopicPartition], suffix: str, now_ms: int) -> None:
        gone: dict[LogDirectory, list[TopicPartition]] = {}
        for partition in list(partitions):
            log = self.logs.pop(partition, None)
            if log is None:
                continue
            directory = log.directory
            del directory.logs[partition]
            log.close()
            if not directory.is_online:
                continue
            unique = Uuid(self._random.randbytes(16))
            folder = f"{directory.path}/{marked_folder_name(partition, unique, suffix)}"
            try:
                self._files.rename(log.folder, folder)
            except OSError as error:
                directory.fail(error)
                continue
            log.set_folder(folder)
            gone.setdefault(directory, []).append(partition)
            if suffix == DELETE_FOLDER_SUFFIX:
                deadline_ms = now_ms + log.config.file_delete_delay_ms
                self._doomed_folders.append((deadline_ms, directory, folder))
        for directory, retired in gone.items():
            self._checkpoint(directory.checkpoint_recovery_points)
            self._checkpoint(directory.checkpoint_log_start_offsets)
            self._checkpoint(partial(self.cleaner.forget, retired, directory))

    def delete_records(
        self, offsets: dict[TopicPartition, int]
    ) -> dict[TopicPartition, LogError | None]:
        """Moves log start offsets, durably; per partition the error or None."""
        results: dict[TopicPartition, LogError | None] = {}
        touched: dict[str, LogDirectory] = {}
        for partition, offset in offsets.items():
            log = self.logs.get(partition)
            try:
                if log is None:
                    raise LogError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} is not here")
                if not log.directory.is_online:
                    raise log.directory.storage_error()
                if log.increment_log_start_offset(offset):
                    touched[log.directory.path] = log.directory
                results[partition] = None
            except LogError as error:
                results[partition] = error
        for directory in touched.values():
            try:
                directory.checkpoint_log_start_offsets()
            except StorageError as error:
                results |= dict.fromkeys(offsets.keys() & directory.logs.keys(), error)
        return results

    def _checkpoint(self, write: Callable[[], None]) -> None:
        """An error has taken the directory offline, which its logs will find out by themselves."""
        try:
            write()
        except StorageError:
            return

    # --- while running ---------------------------------------------------------------------

    def reconfigure(self, config: LogManagerConfig) -> None:
        """Settings of the node were changed while it runs."""
        self._config = self.cleaner.config = config

    def tick(self, now_ms: int) -> list[Job]:
        """Everything that is due; the owner runs what comes back."""
        config = self._config
        jobs: list[Job] = []
        interval_ms = config.log_flush_offset_checkpoint_interval_ms
        if self._is_due("recovery points", interval_ms, now_ms):
            for directory in self.online_directories:
                name, offsets = RECOVERY_POINT_CHECKPOINT_FILE, directory.recovery_points()
                jobs.append(CheckpointJob(directory, name, offsets))
        interval_ms = config.log_flush_start_offset_checkpoint_interval_ms
        if self._is_due("start offsets", interval_ms, now_ms):
            for directory in self.online_directories:
                name, offsets = LOG_START_OFFSET_CHECKPOINT_FILE, directory.log_start_offsets()
                jobs.append(CheckpointJob(directory, name, offsets))
        interval_ms = config.replica_high_watermark_checkpoint_interval_ms
        if self._is_due("high watermark", interval_ms, now_ms):
            for directory in self.online_directories:
                name, offsets = REPLICATION_OFFSET_CHECKPOINT_FILE, directory.high_watermarks()
                jobs.append(CheckpointJob(directory, name, offsets))
        interval_ms = config.producer_id_expiration_check_interval_ms
        for log in self._due_logs("expiration", interval_ms, now_ms):
            log.producer_state.remove_expired(now_ms)
        for log in self._due_logs("retention", config.log_retention_check_interval_ms, now_ms):
            self._retain(log, now_ms)
        for log in self._next_logs():
            self._visit(log, now_ms, jobs)
        self._remove_folders(now_ms, jobs)
        return jobs

    def _is_due(self, what: str, interval_ms: int, now_ms: int) -> bool:
        """Whether the interval has passed since the last time; the first call starts it."""
        deadline_ms = self._deadlines_ms.setdefault(what, now_ms + interval_ms)
        if now_ms < deadline_ms:
            return False
        self._deadlines_ms[what] = now_ms + interval_ms
        return True

    def _due_logs(self, what: str, interval_ms: int, now_ms: int) -> Iterator[UnifiedLog]:
        """Every log once per interval, some at each tick, so that a tick stays short."""
        left = self._due.setdefault(what, deque())
        if not left and self._is_due(what, interval_ms, now_ms):
            left.extend(self.logs.values())
        for _ in range(min(len(left), TICK_RETAINED_LOGS_MAX)):
            log = left.popleft()
            if self.logs.get(log.partition) is log:
                yield log

    def _next_logs(self) -> list[UnifiedLog]:
        """The next few logs in turn, so that one tick stays short with very many of them."""
        found: list[UnifiedLog] = []
        for log in self._visits:
            if self.logs.get(log.partition) is log:
                found.append(log)
            if len(found) == TICK_LOGS_MAX:
                return found
        self._visits = iter(list(self.logs.values()))
        return found if found or not self.logs else self._next_logs()

    def _visit(self, log: UnifiedLog, now_ms: int, jobs: list[Job]) -> None:
        if not log.directory.is_online:
            return
        try:
            if log.needs_flush(now_ms):
                jobs.append(FlushLogJob(log))
        except StorageError:
            return
        paths = log.take_due(now_ms)
        if paths:
            jobs.append(RemoveJob(log.directory, paths))

    def _retain(self, log: UnifiedLog, now_ms: int) -> None:
        if not log.directory.is_online or log.is_cleaning:
            return
        try:
            delete_old_segments(log, now_ms)
        except StorageError:
            return
        log.rest()

    def _remove_folders(self, now_ms: int, jobs: list[Job]) -> None:
        for deadline_ms, directory, folder in self._doomed_folders:
            if deadline_ms <= now_ms and directory.is_online:
                jobs.append(RemoveJob(directory, (), (folder,)))
        self._doomed_folders = [entry for entry in self._doomed_folders if entry[0] > now_ms]

    # --- stop ------------------------------------------------------------------------------

    def shutdown(self, now_ms: int, broker_epoch: int) -> Iterator[TopicPartition]:
        """A clean stop, log by log; directories that fail on the way get no marker."""
        for directory in self.directories:
            for log in list(directory.logs.values()):
                try:
                    if directory.is_online:
                        log.close_cleanly(now_ms)
                except StorageError:
                    log.close()
                yield log.partition
            try:
                directory.checkpoint_recovery_points()
                directory.checkpoint_log_start_offsets()
                directory.checkpoint_high_watermarks()
                if directory.is_online:
                    write_clean_shutdown(self._files, directory.path, broker_epoch)
            except StorageError:
                continue
            except OSError as error:
                directory.fail(error)
        self.release_locks()

    def abandon(self) -> None:
        """Closes files and locks without writing anything, as a kill would."""
        for log in self.logs.values():
            log.close()
        self.release_locks()

    def release_locks(self) -> None:
        for directory in self.directories:
            directory.release_lock()
