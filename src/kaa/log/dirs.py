"""A log directory: one disk, with its lock, its identity and its health.

The first error of a write or a sync takes the whole directory offline, for good: pages that a
failed fsync dropped are gone, and a retry that succeeds would only hide it. From then on every
operation on its logs is refused with KAFKA_STORAGE_ERROR; other directories go on. A restart tries
again, and recovery finds out what is left.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from kaa.log.checkpoints import encode_offset_checkpoint, read_offset_checkpoint
from kaa.log.errors import CorruptFileError, StorageError
from kaa.log.files import write_atomically
from kaa.log.names import (
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from kaa.log.files import DirectoryLock, Files
    from kaa.log.log import UnifiedLog
    from kaa.log.names import TopicPartition
    from kaa.wire.primitives import Uuid


class LogDirectory:
    """Where logs live. Owned by the log manager; logs report errors to it."""

    def __init__(
        self,
        files: Files,
        path: str,
        directory_id: Uuid | None = None,
        on_offline: Callable[[LogDirectory], None] | None = None,
    ) -> None:
        self.files = files
        self.path = path
        self.directory_id = directory_id
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        """The logs that live here; their manager adds and removes them."""
        self.writer: Executor | None = None
        """One thread for the writes that are too long for the loop; None if there is none."""
        self.offline_reason: str | None = None
        """Why the directory is offline; None as long as it is not. Never reset."""
        self._on_offline = on_offline
        self._lock: DirectoryLock | None = None
        self._checkpoint_lock = Lock()
        self._checkpoints_made = 0
        self._checkpoints_written: dict[str, int] = {}
        """By file the number of the table in it."""

    @property
    def is_online(self) -> bool:
        return self.offline_reason is None

    def take_lock(self) -> None:
        """BlockingIOError if another process, ours or a Kafka, uses the directory."""
        self._lock = self.files.lock(f"{self.path}/{LOCK_FILE}")

    def release_lock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def fail(self, error: OSError) -> StorageError:
        """Takes the directory offline; returns the error for the caller to raise."""
        if self.offline_reason is None:
            self.offline_reason = str(error)
            if self._on_offline is not None:
                self._on_offline(self)
        return self.storage_error()

    def storage_error(self) -> StorageError:
        return StorageError(f"log directory {self.path} is offline: {self.offline_reason}")

    # --- checkpoints -----------------------------------------------------------------------

    def read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """The table of a checkpoint. A damaged one is as good as none: recovery takes longer."""
        try:
            return read_offset_checkpoint(self.files, f"{self.path}/{name}")
        except CorruptFileError:
            return {}

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
                write_atomically(self.files, f"{self.path}/{name}", content)
                self._checkpoints_written[name] = number

    def write_checkpoint(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        if self.offline_reason is not None:
            return
        number = self.number_checkpoint()
        try:
            self.replace_checkpoint(name, number, encode_offset_checkpoint(offsets))
        except OSError as error:
            raise self.fail(error) from error

    def recovery_points(self) -> dict[TopicPartition, int]:
        return {partition: log.recovery_checkpoint for partition, log in self.logs.items()}

    def log_start_offsets(self) -> dict[TopicPartition, int]:
        """Only logs that start inside their first segment need an entry."""
        return {
            partition: log.log_start_offset
            for partition, log in self.logs.items()
            if log.log_start_offset > log.segments.first.base_offset
        }

    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {partition: log.high_watermark for partition, log in self.logs.items()}

    def checkpoint_recovery_points(self) -> None:
        self.write_checkpoint(RECOVERY_POINT_CHECKPOINT_FILE, self.recovery_points())

    def checkpoint_log_start_offsets(self) -> None:
        self.write_checkpoint(LOG_START_OFFSET_CHECKPOINT_FILE, self.log_start_offsets())

    def checkpoint_high_watermarks(self) -> None:
        self.write_checkpoint(REPLICATION_OFFSET_CHECKPOINT_FILE, self.high_watermarks())
