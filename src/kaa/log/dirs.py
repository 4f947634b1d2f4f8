"""A log directory: one disk, with its lock, its identity and its health.

The first error of a write or a sync takes the whole directory offline, for good: pages that a
failed fsync dropped are gone, and a retry that succeeds would only hide it. From then on every
operation on its logs is refused with KAFKA_STORAGE_ERROR; other directories go on. A restart tries
again, and recovery finds out what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.log.checkpoints import read_offset_checkpoint, write_offset_checkpoint
from kaa.log.errors import CorruptFileError, StorageError
from kaa.log.names import (
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from uuid import UUID

    from kaa.log.files import DirectoryLock, Files
    from kaa.log.log import UnifiedLog
    from kaa.log.names import TopicPartition


class LogDirectory:
    """Where logs live. Owned by the log manager; logs report errors to it."""

    def __init__(
        self,
        files: Files,
        path: str,
        directory_id: UUID | None = None,
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

    def write_checkpoint(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        if self.offline_reason is not None:
            return
        try:
            write_offset_checkpoint(self.files, f"{self.path}/{name}", offsets)
        except OSError as error:
            raise self.fail(error) from error

    def checkpoint_recovery_points(self) -> None:
        offsets = {partition: log.recovery_checkpoint for partition, log in self.logs.items()}
        self.write_checkpoint(RECOVERY_POINT_CHECKPOINT_FILE, offsets)

    def checkpoint_log_start_offsets(self) -> None:
        """Only logs that start inside their first segment need an entry."""
        offsets = {
            partition: log.log_start_offset
            for partition, log in self.logs.items()
            if log.log_start_offset > log.segments.first.base_offset
        }
        self.write_checkpoint(LOG_START_OFFSET_CHECKPOINT_FILE, offsets)

    def checkpoint_high_watermarks(self) -> None:
        offsets = {partition: log.high_watermark for partition, log in self.logs.items()}
        self.write_checkpoint(REPLICATION_OFFSET_CHECKPOINT_FILE, offsets)
