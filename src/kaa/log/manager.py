"""All logs of a broker, over all its directories.

Start: each directory is locked, its clean-shutdown marker read and removed (durably, before any
log is loaded, so that a crash while loading is not taken for a clean stop), its checkpoints read
and its logs loaded one after the other. `start` is a generator, since recovery may take long.

While running, the owner calls `tick` every second or so (`kaa.log.upkeep`). Compaction is work
of its own: `cleaner.work`, every log.cleaner.backoff.ms. What a truncation lowers in a checkpoint
is written at once. What a deletion leaves there goes with the next tick, or before a log of that
name is made again: by `forget_deleted`, off the loop and for all names at once, or for somebody who
cannot wait when the log is made. The folders of new logs are made durable by `sync_folders`, many
by one sync of their directory: else a power cut would take a partition's folder, and the partition
would come back empty without anybody knowing that there had been a log.

Stop: every log that was written to is flushed, by several threads, and closed; checkpoints are
written, then the marker.

A directory that fails goes offline alone, at start as later. Its logs stay known, since their
replicas are here, but every operation on them is refused.

Logs that somebody else has removed or damaged are known to be lost (`kaa.log.lost`). So that this
can be said of a directory without any checkpoint too, there is one before the first log.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kaa.limits import LOGS_PER_SLICE_MAX, PREFERRED_DIRECTORIES_MAX
from kaa.log.cancelled_moves import is_void
from kaa.log.cleaner import LogCleaner
from kaa.log.dirs import LogDirectory, is_log_directory, nested_text, report_older_stops
from kaa.log.errors import LogError, StorageError, is_shortage
from kaa.log.files import TEMPORARY_SUFFIX
from kaa.log.futures import FutureLogs
from kaa.log.jobs import SyncFoldersJob
from kaa.log.lost import LostLogs, Outdone, is_emptied, progress
from kaa.log.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT_FILE,
    DELETE_FOLDER_SUFFIX,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
    STRAY_FOLDER_SUFFIX,
    folder_name,
    marked_folder_name,
    parse_folder_name,
)
from kaa.log.properties import (
    NO_BROKER_EPOCH,
    find_topic_id,
    read_clean_shutdown,
    read_stopped_directories,
    remove_clean_shutdown,
    write_clean_shutdown,
)
from kaa.log.recovery import LoadOptions, create_log, damage_text, load_log, two_logs_text
from kaa.log.truncation import PendingTruncation
from kaa.log.upkeep import LogUpkeep
from kaa.log.void import VoidLogs
from kaa.model.topics import CLUSTER_METADATA, TopicPartition
from kaa.records.errors import CorruptRecordsError
from kaa.wire.errors import Errors
from kaa.wire.primitives import Uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from kaa.log.config import LogConfig, LogManagerConfig
    from kaa.log.files import Files
    from kaa.log.jobs import Job
    from kaa.log.log import UnifiedLog
    from kaa.log.lost import IsOurs
    from kaa.log.recovery import RecoveryProgress
    from kaa.model.seams import RandomSource

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
    """Owns every log of a broker and the directories they are in. Run `start` to its end first,
    call `tick` about once a second, and end with `shutdown`, or with `abandon`, which writes
    nothing.
    """

    def __init__(
        self,
        files: Files,
        paths: Sequence[str],
        config: LogManagerConfig,
        random: RandomSource,
        topic_config: Callable[[str], LogConfig],
        on_offline: Callable[[LogDirectory], None] | None = None,
        monotonic_ms: Callable[[], int] | None = None,
    ) -> None:
        """Without `monotonic_ms` waiting goes by the times that are handed in."""
        self._files = files
        self.config = config
        self.random = random
        self._topic_config = topic_config
        self.directories = [
            LogDirectory(files, path, on_offline=on_offline, monotonic_ms=monotonic_ms)
            for path in paths
        ]
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        self.cleaner = LogCleaner(self.logs, config, random.randbytes(16))
        # Per directory the broker epoch of the last stop, None if that was not clean.
        self.clean_broker_epochs: dict[str, int | None] = {}
        # Folders in log directories that are not logs; left alone, for the owner to report.
        self.ignored_folders: list[str] = []
        # Folders that were put aside since the start.
        self.strays: list[str] = []
        # Logs that begin empty while the cluster counts on what was in others of that name.
        self.unfilled: set[TopicPartition] = set()
        self._is_ours: IsOurs
        # Which logs count for nothing, wherever they turn up again.
        self.void = VoidLogs(files)
        self.lost = LostLogs(self)
        self.is_lost = self.lost.has
        self.futures = FutureLogs(self)
        self._upkeep = LogUpkeep(
            self.logs, self.directories, config, self.cleaner, self.futures.logs
        )
        # Where a log is to be made that is not here yet, by request.
        self._preferred: dict[TopicPartition, LogDirectory] = {}
        self._is_locked = False

    # --- start

    def exclude(self, reasons: Mapping[str, str]) -> None:
        """Leaves directories alone from the start, by path the reason."""
        for directory in self.directories:
            if directory.path in reasons:
                directory.fail(OSError(reasons[directory.path]))

    def lock(self) -> None:
        """Takes the directories for this process; BlockingIOError if another one uses one."""
        self._is_locked = True
        for directory in self.online_directories:
            try:
                self._files.make_directory(directory.path)
                directory.take_lock()
            except BlockingIOError:
                self.release_locks()
                raise
            except OSError as error:
                directory.fail(error)

    def read_clean_shutdowns(self) -> int:
        """The broker epoch of the last stop if it was clean, else -1. A broker says so when it
        registers, before its logs are loaded, and the cluster takes it for whole. So, as in Kafka,
        all directories have to be there and to agree. One that was taken out of log.dirs is not.
        """
        stopped: set[str] = set()
        for directory in self.online_directories:
            try:
                epoch = read_clean_shutdown(self._files, directory.path)
                stopped |= read_stopped_directories(self._files, directory.path)
            except OSError as error:
                directory.fail(error)
            else:
                self.clean_broker_epochs[directory.path] = epoch
        report_older_stops(self.online_directories, self.clean_broker_epochs)
        is_whole = stopped <= {str(directory.directory_id) for directory in self.directories}
        epochs = {self.clean_broker_epochs.get(directory.path) for directory in self.directories}
        epoch = epochs.pop() if len(epochs) == 1 and is_whole else None
        return NO_BROKER_EPOCH if epoch is None else epoch

    def start(
        self, now_ms: int, is_ours: IsOurs = lambda _, __: True
    ) -> Iterator[RecoveryProgress]:
        """Loads everything, and takes the directories first where `lock` was not called.

        Of two logs of one partition, `is_ours` tells the one that the cluster knows.
        """
        self._is_ours = is_ours
        if not self._is_locked:
            self.lock()
        self.void.load(self.directories[0].report)
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
        self.futures.choose(self._copy_rank, now_ms)
        self.lost.found_all()

    def _load_directory(self, directory: LogDirectory, now_ms: int) -> Iterator[RecoveryProgress]:
        clean_epoch = read_clean_shutdown(self._files, directory.path)
        self.clean_broker_epochs[directory.path] = clean_epoch
        remove_clean_shutdown(self._files, directory.path)
        if clean_epoch is None:
            self._files.sync_directory(directory.path)
        directory.is_unused = not directory.has_checkpoints
        recovery_points = directory.read_checkpoint(RECOVERY_POINT_CHECKPOINT_FILE)
        start_offsets = directory.read_checkpoint(LOG_START_OFFSET_CHECKPOINT_FILE)
        high_watermarks = directory.read_checkpoint(REPLICATION_OFFSET_CHECKPOINT_FILE)
        first_dirty = directory.read_checkpoint(CLEANER_OFFSET_CHECKPOINT_FILE)
        for partition, folder, is_future in self._find_logs(directory, now_ms):
            if not is_future and self.lost.found_void(partition, directory, folder, self._is_ours):
                continue
            options = LoadOptions(
                now_ms=now_ms,
                clean=clean_epoch is not None,
                recovery_point=recovery_points.get(partition, 0),
                log_start_offset=start_offsets.get(partition, 0),
                first_dirty_offset=first_dirty.get(partition, 0),
                manager=self.config,
            )
            log = yield from self._load_log(
                directory, folder, partition, options, is_future=is_future
            )
            if log is None:
                continue
            log.update_high_watermark(high_watermarks.get(partition, 0))
            if is_future:
                self.futures.found(log)
                if not options.clean:
                    self.futures.unclean.add(partition)
            else:
                self._add_found(log, now_ms)
        directory.lost = {
            partition: recovery_points.get(partition, 0)
            for partition in recovery_points.keys() | start_offsets.keys() | high_watermarks.keys()
            if partition not in directory.every_log
        }
        self.cleaner.load_checkpoint(directory, first_dirty)

    def _load_log(
        self,
        directory: LogDirectory,
        folder: str,
        partition: TopicPartition,
        options: LoadOptions,
        *,
        is_future: bool,
    ) -> Generator[RecoveryProgress, None, UnifiedLog | None]:
        """The log in a folder; None for one that is not whole, of which the operator hears."""
        config = self._topic_config(partition.topic)
        try:
            log = yield from load_log(directory, folder, partition, config, self.random, options)
        except CorruptRecordsError as error:
            directory.report(
                damage_text(partition, error, directory.path, options, is_future=is_future)
            )
        else:
            if not is_emptied(log, options.recovery_point):
                return log
            log.close()
        self.lost.found_damaged(partition, directory, folder)
        return None

    def _find_logs(
        self, directory: LogDirectory, now_ms: int
    ) -> Iterator[tuple[TopicPartition, str, bool]]:
        """Logs, and whether they are future ones."""
        for name in self._files.list_directory(directory.path):
            folder = f"{directory.path}/{name}"
            if name in _LEFT_OVERS:
                self._files.unlink(folder)
            if not self._files.is_directory(folder):
                continue
            parsed = parse_folder_name(name)
            if parsed is not None and is_log_directory(self._files, folder):
                directory.report(nested_text(folder))
                parsed = None
            if parsed is not None and parsed.mark in {"delete", "stray"}:
                self.lost.found_marked(parsed.partition, directory, folder)
            if parsed is None or parsed.mark == "stray":
                self.ignored_folders.append(folder)
            elif parsed.mark == "delete":
                delay_ms = self._topic_config(parsed.partition.topic).file_delete_delay_ms
                self._upkeep.doom(directory, folder, delay_ms, now_ms)
            elif parsed.mark == "future":
                yield parsed.partition, folder, True
            elif parsed.partition.topic != CLUSTER_METADATA:
                # That one is the quorum's, which loads it by itself.
                other = self.logs.get(parsed.partition)
                if other is None or self._put_one_aside(directory, folder, other, now_ms):
                    yield parsed.partition, folder, False

    def _put_one_aside(
        self, directory: LogDirectory, folder: str, other: UnifiedLog, now_ms: int
    ) -> bool:
        """Of the logs of two topics, puts the one aside that is not the partition's; whether the
        one in this folder is to be loaded.

        A topic may have been made again while one of the disks was away; then they are of two
        topics, and the one that the cluster does not know any more goes.
        """
        partition, topic_id = other.partition, find_topic_id(self._files, folder)
        if topic_id is None or other.topic_id in {None, topic_id}:
            # Which of them it is shows when it is loaded.
            return True
        if self._is_ours(partition, topic_id):
            self._retire(partition, STRAY_FOLDER_SUFFIX, now_ms)
            return True
        self._put_aside(directory, partition, folder)
        return False

    def _add_found(self, log: UnifiedLog, now_ms: int) -> None:
        """Of two logs of one partition the one that has more was gone on with when a disk failed
        in the middle of a swap, or before it had all files of a new log; the other one is put
        aside.
        """
        other = self.logs.get(log.partition)
        if other is None and self.lost.is_ambiguous(log.partition):
            log.close()
            self.lost.found_ambiguous(log)
            return
        if other is None:
            self._add(log)
            return
        if any(each.topic_id is None and each.log_end_offset > 0 for each in (log, other)):
            del self.logs[log.partition], other.directory.logs[log.partition]
            for each in (log, other):
                each.close()
                self.lost.found_ambiguous(each)
            log.directory.report(two_logs_text(log.folder, other.folder))
            return
        # Of a directory that has failed since its log was loaded, nothing can be put aside.
        is_served = other.directory.is_online
        ours, theirs, before = progress(log), progress(other), len(self.strays)
        if ours > theirs or (ours == theirs and not is_served):
            self._retire(log.partition, STRAY_FOLDER_SUFFIX, now_ms)
            if is_served:
                self._files.sync_directory(other.directory.path)
            else:
                self.void.note(other.partition, other.topic_id, other.directory)
            self._add(log)
        else:
            log.close()
            self._put_aside(log.directory, log.partition, log.folder)
            self._files.sync_directory(log.directory.path)
            ours, theirs = theirs, ours
        served = self.logs[log.partition].folder
        for aside in self.strays[before:][-1:]:
            self.lost.outdone[aside] = Outdone(theirs, served, ours)

    def _put_aside(self, directory: LogDirectory, partition: TopicPartition, folder: str) -> None:
        aside = self._marked_folder(directory, partition, STRAY_FOLDER_SUFFIX)
        self._files.rename(folder, aside)
        self.lost.found_marked(partition, directory, aside)
        self.strays.append(aside)

    def _marked_folder(self, directory: LogDirectory, partition: TopicPartition, mark: str) -> str:
        unique = Uuid(self.random.randbytes(16))
        return f"{directory.path}/{marked_folder_name(partition, unique, mark)}"

    def put_away(
        self,
        directory: LogDirectory,
        folder: str,
        partition: TopicPartition,
        suffix: str,
        now_ms: int,
    ) -> None:
        """Has the name of a folder say that it is no log; a deleted one is removed later. On a
        directory that is offline it stays as it is.
        """
        if not directory.is_online:
            return
        marked = self._marked_folder(directory, partition, suffix)
        try:
            self._files.rename(folder, marked)
        except OSError as error:
            directory.fail(error)
            return
        if suffix == DELETE_FOLDER_SUFFIX:
            self.doom(directory, marked, self._topic_config(partition.topic), now_ms)
        else:
            self.strays.append(marked)

    def keep_deleted(self, topic_ids: Mapping[TopicPartition, Uuid]) -> list[str]:
        return self._upkeep.keep_deleted(topic_ids)

    def begin_use(self) -> None:
        """Before logs are made: marks directories as used, durably, with what is lost in them."""
        for directory in self.online_directories:
            if directory.is_unused:
                directory.is_unused = False
                try:
                    directory.checkpoint_recovery_points()
                except StorageError:
                    continue

    def _add(self, log: UnifiedLog) -> None:
        self.logs[log.partition] = log
        log.directory.logs[log.partition] = log

    def _copy_rank(self, log: UnifiedLog) -> tuple[bool, bool, int]:
        """Of two copies the one goes on that is of the topic that the cluster knows, of a move
        that was not cancelled, that a swap was about to put in the place of its source, or that is
        longer.
        """
        source = self.logs.get(log.partition)
        is_cancelled = source is not None and is_void(source, log.directory)
        is_ours = self._is_ours(log.partition, log.topic_id) and not is_cancelled
        return is_ours, self.lost.has_swapped(log), log.log_end_offset

    # --- logs

    @property
    def online_directories(self) -> list[LogDirectory]:
        return [each for each in self.directories if each.offline_reason is None]

    @property
    def every_log(self) -> list[UnifiedLog]:
        """All logs, and the future ones."""
        return [*self.logs.values(), *self.futures.logs.values()]

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
        KAFKA_STORAGE_ERROR if no directory takes it, ShortageError if one may take it later.
        """
        log = self.logs.get(partition)
        if log is not None:
            self.check_topic_id(log, topic_id)
            return log
        config = self._topic_config(partition.topic)
        options = LoadOptions(now_ms=now_ms, manager=self.config)
        self.lost.forget(partition, STRAY_FOLDER_SUFFIX, now_ms)
        self.forget_stale(partition)
        for directory in self._candidates(directory_id, self._preferred.get(partition)):
            try:
                sync = partial(self._files.sync_directory, directory.path)
                self.void.free(partition, directory, sync)
                log = create_log(directory, partition, topic_id, config, self.random, options)
            except OSError as error:
                if is_shortage(error):
                    self._remove_unfinished(directory, partition, now_ms)
                    raise directory.fail_unless_short(error) from error
                directory.fail(error)
                self.void.note(partition, topic_id, directory)
            else:
                self._preferred.pop(partition, None)
                self._add(log)
                directory.new_logs.append(log)
                return log
        raise StorageError(f"no log directory can take {partition}")

    def _remove_unfinished(
        self, directory: LogDirectory, partition: TopicPartition, now_ms: int
    ) -> None:
        """A folder that is no log yet must not be taken for one that is in two directories."""
        folder = f"{directory.path}/{folder_name(partition)}"
        if self._files.exists(folder):
            self.put_away(directory, folder, partition, DELETE_FOLDER_SUFFIX, now_ms)

    def check_topic_id(self, log: UnifiedLog, topic_id: Uuid | None) -> None:
        """Gives a log its topic if a crash took the file that names it; INCONSISTENT_TOPIC_ID if it
        is of another one.
        """
        if log.topic_id is None and topic_id is not None:
            log.assign_topic_id(topic_id)
        elif topic_id not in {None, log.topic_id}:
            raise LogError(
                Errors.INCONSISTENT_TOPIC_ID,
                f"{log.partition} belongs to topic {log.topic_id}, not {topic_id}",
            )

    def prefer(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """Has the log made in this directory if it is made later on (AlterReplicaLogDirs)."""
        self._preferred.pop(partition, None)
        self._preferred[partition] = directory
        if len(self._preferred) > PREFERRED_DIRECTORIES_MAX:
            del self._preferred[next(iter(self._preferred))]

    def _candidates(
        self, directory_id: Uuid | None, preferred: LogDirectory | None
    ) -> list[LogDirectory]:
        online = self.online_directories
        chosen = [d for d in online if directory_id is not None and d.directory_id == directory_id]
        # The controller places nothing on a broker all of whose directories are cordoned, so that
        # what comes nevertheless was placed before.
        open_ones = [directory for directory in online if not directory.is_cordoned] or online
        if not chosen and preferred is not None and preferred.is_online:
            return [preferred]
        return chosen or sorted(open_ones, key=lambda directory: len(directory.every_log))

    def cordon(self, paths: Sequence[str]) -> bool:
        """Which directories take no new logs from now on; whether that is a change."""
        before = [directory.is_cordoned for directory in self.directories]
        for directory in self.directories:
            directory.is_cordoned = directory.path in paths
        return before != [directory.is_cordoned for directory in self.directories]

    def update_topic_config(self, topic: str, numbers: Iterable[int]) -> None:
        """Takes over changed settings of a topic, for these partitions of it."""
        config = self._topic_config(topic)
        for number in numbers:
            log = self.logs.get(TopicPartition(topic, number))
            future = self.futures.get(TopicPartition(topic, number))
            for known in (log, future):
                if known is not None:
                    known.update_config(config)

    def delete(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Removes logs. Their folders are renamed at once and go after file.delete.delay.ms."""
        for partition in partitions:
            self._retire(partition, DELETE_FOLDER_SUFFIX, now_ms)

    def put_aside(self, partition: TopicPartition, now_ms: int) -> None:
        """Takes a log out that is of another topic, and keeps it."""
        self._retire(partition, STRAY_FOLDER_SUFFIX, now_ms)

    def mark_strays(self, is_ours: IsOurs, now_ms: int) -> Iterator[None]:
        """Puts logs aside that the cluster does not know of; nothing of them is deleted. Pauses
        now and then.
        """
        self.lost.forget_deleted(is_ours)
        for partition in self.lost.partitions:
            if not is_ours(partition, None):
                self.lost.forget(partition, STRAY_FOLDER_SUFFIX, now_ms)
        for number, (partition, log) in enumerate(list(self.logs.items()), 1):
            # In a pause it may have been deleted, and made again for another topic.
            if self.logs.get(partition) is log and not is_ours(partition, log.topic_id):
                self._retire(partition, STRAY_FOLDER_SUFFIX, now_ms)
            if number % LOGS_PER_SLICE_MAX == 0:
                yield
        self.lost.put_served_aside(now_ms)

    def _retire(self, partition: TopicPartition, suffix: str, now_ms: int) -> None:
        """Takes a log out. Its entries in checkpoints go with the next ones, or before a log of
        that name is made again.
        """
        self.lost.forget(partition, suffix, now_ms)
        log = self.logs.pop(partition, None)
        if log is None:
            return
        directory = log.directory
        del directory.logs[partition]
        log.close_when_settled()
        if not directory.is_online:
            return
        folder = self._marked_folder(directory, partition, suffix)
        try:
            log.rename_folder(folder)
        except OSError as error:
            directory.fail(error)
            return
        directory.stale[partition] = directory.number_checkpoint()
        self.cleaner.forget(partition)
        if suffix == DELETE_FOLDER_SUFFIX:
            self.doom(directory, folder, log.config, now_ms)
        else:
            self.strays.append(folder)

    def doom(self, directory: LogDirectory, folder: str, config: LogConfig, now_ms: int) -> None:
        """Has a folder removed after the delay that the topic has for it."""
        self._upkeep.doom(directory, folder, config.file_delete_delay_ms, now_ms)

    def forget_stale(self, partition: TopicPartition) -> None:
        """Writes checkpoints without a log that was deleted, before there is a new one. That makes
        the names in the directory durable too: after a power cut the old log must not be there
        again beside the new one. StorageError if a file could not be opened.
        """
        # One that is offline gets no log.
        for directory in self.online_directories:
            if directory.is_stale(partition):
                try:
                    directory.checkpoint_recovery_points()
                    directory.checkpoint_log_start_offsets()
                    directory.checkpoint_high_watermarks()
                    self.cleaner.write_checkpoint(directory)
                except StorageError:
                    if directory.is_online:
                        # Too many files are open, and the name is not free.
                        raise

    def is_stale(self, partition: TopicPartition) -> bool:
        """Whether checkpoints have to be written before there is a log of that name again."""
        return any(one.is_online and one.is_stale(partition) for one in self.directories)

    def forget_deleted(self) -> Iterator[Job | None]:
        """The work of writing checkpoints without the logs that were deleted, so that their names
        are free; None where others should have a turn.
        """
        return self._upkeep.forget_deleted()

    def sync_folders(self) -> Iterator[Job]:
        """The work of making the folders of new logs durable."""
        for directory in self.online_directories:
            if directory.new_logs:
                yield SyncFoldersJob(directory)

    def delete_records(self, partition: TopicPartition, offset: int) -> LogDirectory | None:
        """Moves a log start offset; LogError if it cannot be. The directory if it has moved: that
        it has is durable with the next checkpoint, and `checkpoint_starts` writes it.
        """
        log = self.logs.get(partition)
        if log is not None and isinstance(log.pending, PendingTruncation):
            # A swap has written where the log starts already, in the directory it goes to.
            log.settle()
            log = self.logs.get(partition)
        if log is None:
            raise LogError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} is not here")
        if not log.directory.is_online:
            raise log.directory.storage_error()
        return log.directory if log.increment_log_start_offset(offset) else None

    def checkpoint_starts(self, directory: LogDirectory) -> Iterator[Job | None]:
        """The work of making log start offsets durable; None where others should have a turn."""
        return self._upkeep.checkpoint_starts(directory)

    # --- while running

    def reconfigure(self, config: LogManagerConfig) -> None:
        """Settings of the node were changed while it runs."""
        self.config = self.cleaner.config = self._upkeep.config = config

    def tick(self, now_ms: int) -> Iterator[Job | None]:
        """See `kaa.log.upkeep`."""
        return self._upkeep.tick(now_ms)

    # --- stop

    def shutdown(self, now_ms: int, broker_epoch: int) -> Iterator[TopicPartition]:
        """A clean stop on the calling thread, log by log."""
        for log in self.every_log:
            self.close_log(log, now_ms)
            yield log.partition
        self.finish_shutdown(broker_epoch)
        self.release_locks()

    def close_log(self, log: UnifiedLog, now_ms: int) -> None:
        """The first part of a stop. Different logs may be closed by different threads."""
        try:
            if log.directory.is_online:
                log.close_cleanly(now_ms)
        except StorageError:
            pass
        log.close()

    def finish_shutdown(self, broker_epoch: int) -> None:
        """The second part: directories that failed on the way get no marker. The locks are kept,
        since the metadata log in one of them may still be written.
        """
        if self.unfilled:
            broker_epoch = NO_BROKER_EPOCH
        ids = [each.directory_id for each in self.directories if each.directory_id is not None]
        for directory in self.directories:
            try:
                directory.checkpoint_recovery_points()
                directory.checkpoint_log_start_offsets()
                directory.checkpoint_high_watermarks()
                if directory.is_online:
                    # The folders that were made here.
                    self._files.sync_directory(directory.path)
                    write_clean_shutdown(self._files, directory.path, broker_epoch, ids)
            except StorageError:
                continue
            except OSError as error:
                directory.fail(error)

    def abandon(self) -> None:
        """Closes files and locks without writing anything, as a kill would."""
        for log in self.every_log:
            log.close()
        self.release_locks()

    def release_locks(self) -> None:
        for directory in self.directories:
            directory.release_lock()
