"""A log directory: one disk, with its lock, its identity and its health.

The first error of a write, a sync or a read takes the whole directory offline, for good: pages that
a failed fsync dropped are gone, and a retry that succeeds would only hide it. From then on every
operation on its logs is refused with KAFKA_STORAGE_ERROR; other directories go on. A restart tries
again, and recovery finds out what is left.

A disk that is unmounted in spite of the files that are open on it goes on for those. New names
would go to the folder that it was mounted on: before a log or a checkpoint is made, the place is
compared.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

from kaa.limits import DAMAGES_REPORTED_MAX
from kaa.log.checkpoints import encode_offset_checkpoint, read_offset_checkpoint
from kaa.log.errors import (
    CorruptFileError,
    ShortageError,
    StorageError,
    error_text,
    is_shortage,
)
from kaa.log.files import write_atomically
from kaa.log.names import (
    CLEANER_OFFSET_CHECKPOINT_FILE,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from kaa.log.files import DirectoryLock, Files
    from kaa.log.log import UnifiedLog
    from kaa.model.topics import TopicPartition
    from kaa.wire.primitives import Uuid

_CHECKPOINT_FILES: Final = (
    CLEANER_OFFSET_CHECKPOINT_FILE,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
)


class LogDirectory:
    """Where logs live. Owned by the log manager; logs report errors to it."""

    def __init__(
        self,
        files: Files,
        path: str,
        directory_id: Uuid | None = None,
        on_offline: Callable[[LogDirectory], None] | None = None,
        monotonic_ms: Callable[[], int] | None = None,
    ) -> None:
        self.files = files
        self.path = path
        self.directory_id = directory_id
        # The logs that live here; their manager adds and removes them.
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        # Future logs that are to come here; `kaa.log.futures` adds and removes them.
        self.futures: dict[TopicPartition, UnifiedLog] = {}
        # Logs that were made here, and whose folders a power cut might still take.
        self.new_logs: list[UnifiedLog] = []
        # One thread for the writes that are too long for the loop; None if there is none.
        self.writer: Executor | None = None
        # Why the directory is offline; None as long as it is not. Never reset.
        self.offline_reason: str | None = None
        self.offline_error: OSError | None = None
        # Whether it takes no new logs (KIP-1066); those that are there stay.
        self.is_cordoned = False
        self._on_offline = on_offline
        # Held from the start to the end; it tells, too, whether the directory is in its place.
        self.lock: DirectoryLock | None = None
        self._checkpoint_lock = Lock()
        self._checkpoints_made = 0
        # By file the number of the table in it.
        self._checkpoints_written: dict[str, int] = {}
        # Deleted logs that checkpoints may still name, unless their number is above this.
        self.stale: dict[TopicPartition, int] = {}
        # Logs that the checkpoint of recovery points names and that are gone, with their entries.
        # They stay there, so that the next start knows of them too.
        self.lost: dict[TopicPartition, int] = {}
        # Whether no broker has run with it yet, as far as its files tell; known when it is loaded.
        self.is_unused = False
        # Where the operator reads what was found, from any thread; nobody does unless it is set.
        self.report: Callable[[str], None] = lambda _: None
        self._reported: set[str] = set()
        self._monotonic_ms = monotonic_ms

    @property
    def is_online(self) -> bool:
        return self.offline_reason is None

    def steady_ms(self, now_ms: int) -> int:
        """The time by which logs wait: that of a clock which never jumps, if there is one, and not
        the date, which somebody may set.
        """
        return now_ms if self._monotonic_ms is None else self._monotonic_ms()

    def take_lock(self) -> None:
        """BlockingIOError if another process, ours or a Kafka, uses the directory."""
        self.lock = self.files.lock(f"{self.path}/{LOCK_FILE}")

    def release_lock(self) -> None:
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    def fail(self, error: OSError) -> StorageError:
        """Takes the directory offline; returns the error for the caller to raise."""
        if self.offline_reason is None:
            self.offline_reason, self.offline_error = error_text(error), error
            if self._on_offline is not None:
                self._on_offline(self)
        return self.storage_error()

    def fail_unless_short(self, error: OSError) -> StorageError:
        """The same for work that left everything as it was if a file could not be opened."""
        if is_shortage(error):
            return ShortageError(f"too many files are open: {error_text(error)}")
        return self.fail(error)

    def storage_error(self) -> StorageError:
        return StorageError(f"log directory {self.path} is offline: {self.offline_reason}")

    def report_once(self, text: str) -> None:
        """For what is met again and again."""
        if text not in self._reported and len(self._reported) < DAMAGES_REPORTED_MAX:
            self._reported.add(text)
            self.report(text)

    @property
    def every_log(self) -> dict[TopicPartition, UnifiedLog]:
        """Logs and future ones; a directory has at most one of them for a partition."""
        return {**self.logs, **self.futures} if self.futures else self.logs

    # --- checkpoints

    def read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """The table of a checkpoint. A damaged one is as good as none: recovery takes longer."""
        try:
            return read_offset_checkpoint(self.files, f"{self.path}/{name}")
        except CorruptFileError as error:
            self.report_once(
                f"{error}: this checkpoint is damaged: the broker goes on without it, "
                "which may take longer, and writes a new one"
            )
            return {}

    @property
    def has_checkpoints(self) -> bool:
        """Whether there is any; a broker writes one before it gets its first log. OSError."""
        return any(self.files.exists(f"{self.path}/{name}") for name in _CHECKPOINT_FILES)

    def number_checkpoint(self) -> int:
        """Numbers a table when it is made, on the loop."""
        self._checkpoints_made += 1
        return self._checkpoints_made

    def replace_checkpoint(self, name: str, number: int, content: bytes) -> None:
        """Writes a table, on any thread, unless a newer one is there: a slow writer must not undo
        the entry that a truncation or a deletion has just lowered. OSError is the caller's.
        """
        with self._checkpoint_lock:
            if number > self._checkpoints_written.get(name, 0):
                lock = self.lock
                if lock is not None:
                    lock.check_place()
                write_atomically(self.files, f"{self.path}/{name}", content)
                self._checkpoints_written[name] = number

    def write_checkpoint(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        if self.offline_reason is not None:
            return
        number = self.number_checkpoint()
        try:
            self.replace_checkpoint(name, number, encode_offset_checkpoint(offsets))
        except OSError as error:
            raise self.fail_unless_short(error) from error

    def is_stale(self, partition: TopicPartition) -> bool:
        """Whether a checkpoint may still name a log of that name which was deleted."""
        number = self.stale.get(partition)
        return number is not None and self._oldest_written <= number

    @property
    def _oldest_written(self) -> int:
        """The number of the oldest table among the files."""
        return min(self._checkpoints_written.get(name, 0) for name in _CHECKPOINT_FILES)

    def drop_settled(self) -> None:
        """Forgets the deleted logs that no checkpoint names any more."""
        if self.stale:
            oldest = self._oldest_written
            self.stale = {name: at for name, at in self.stale.items() if oldest <= at}

    def recovery_points(self) -> dict[TopicPartition, int]:
        return self.with_lost(
            {partition: log.recovery_checkpoint for partition, log in self.every_log.items()}
        )

    def with_lost(self, recovery_points: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The table with the entries of logs that are gone, as every writer of it has to have."""
        return {**self.lost, **recovery_points} if self.lost else recovery_points

    def log_start_offsets(self) -> dict[TopicPartition, int]:
        """Only logs that do not start with their first segment need an entry."""
        return {
            partition: log.log_start_offset
            for partition, log in self.every_log.items()
            if log.is_tiered or log.log_start_offset > log.segments.first.base_offset
        }

    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {partition: log.high_watermark for partition, log in self.every_log.items()}

    def checkpoint_recovery_points(self) -> None:
        self.write_checkpoint(RECOVERY_POINT_CHECKPOINT_FILE, self.recovery_points())

    def checkpoint_log_start_offsets(self) -> None:
        self.write_checkpoint(LOG_START_OFFSET_CHECKPOINT_FILE, self.log_start_offsets())

    def checkpoint_high_watermarks(self) -> None:
        self.write_checkpoint(REPLICATION_OFFSET_CHECKPOINT_FILE, self.high_watermarks())


def is_log_directory(files: Files, path: str) -> bool:
    """Whether a folder is itself a log directory, whatever its name: no log has such files."""
    return any(files.exists(f"{path}/{name}") for name in (META_PROPERTIES_FILE, LOCK_FILE))


def report_older_stops(
    directories: Sequence[LogDirectory], epochs: Mapping[str, int | None]
) -> None:
    """Names directories that were stopped in an earlier life of the broker than others, by the
    broker epochs of their markers. One without a marker, or of an unknown epoch, tells nothing.
    """
    known = [(epochs.get(each.path), each) for each in directories]
    stops = [(epoch, each) for epoch, each in known if epoch is not None and epoch >= 0]
    newest, other = max(stops, key=lambda stop: stop[0], default=(-1, None))
    for epoch, directory in stops:
        if other is not None and epoch < newest:
            directory.report(
                f"{directory.path} is as it was at an earlier stop, in broker epoch {epoch} and "
                f"not in {newest} as {other.path}: it was away when the broker ran since, or put "
                "back from an older copy. If it is a copy, what was written to its logs since is "
                "lost here, unless another replica has it: stop the broker and bring the newest "
                "files back"
            )


def nested_text(path: str) -> str:
    return (
        f"{path} is a log directory itself, though its name is that of a partition: it is left "
        "alone. Log directories belong side by side, none of them inside another one"
    )
