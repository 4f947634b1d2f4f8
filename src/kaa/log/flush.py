"""Making a log durable, off the loop.

``UnifiedLog.flush_job`` collects on the loop what has to be synced, ``run`` makes the system calls
on any thread, ``UnifiedLog.complete_flush`` moves the recovery point. Below the recovery point all
data is durable, and so are the leader epochs that start there.

The indexes of the active segment are not synced with it, since recovery builds them anew in any
case; they are synced when the segment has been sealed, and at a clean stop. Recovery must therefore
never start behind a segment whose indexes are not synced: what goes into the checkpoint is
``UnifiedLog.recovery_checkpoint``, which lies inside the oldest such segment.

Jobs of one log may overlap: a group commit and a flush after a roll know nothing of each other.
Each syncs all that its own offset needs. Only the file of leader epochs is replaced by name; one
writer at a time does that, and an older table never follows a newer one.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from kaa.log.files import sync_if_exists, write_atomically
from kaa.log.names import LEADER_EPOCH_CHECKPOINT_FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.log.files import File, Files
    from kaa.log.segment import Segment


class EpochsFile:
    """The leader-epoch checkpoint of one log, written from whichever thread runs a flush."""

    __slots__ = ("_files", "_lock", "durable_version")

    def __init__(self, files: Files) -> None:
        self._files = files
        self._lock = Lock()
        self.durable_version = 0
        """Of the table that is on disk."""

    def write(self, folder: str, version: int, content: bytes) -> None:
        with self._lock:
            if version > self.durable_version:
                path = f"{folder}/{LEADER_EPOCH_CHECKPOINT_FILE}"
                write_atomically(self._files, path, content)
                self.durable_version = version


class FlushJob:
    """Files to sync so that everything below ``offset`` is durable."""

    __slots__ = (
        "_completed",
        "_current_folder",
        "_epochs",
        "_files",
        "_folder",
        "_other_paths",
        "_segments",
        "_sync_folder",
        "_sync_parent",
        "_syncs",
        "generation",
        "offset",
    )

    def __init__(
        self,
        files: Files,
        folder: str,
        offset: int,
        generation: int,
        segments: list[Segment],
        other_paths: list[str],
        epochs: tuple[EpochsFile, int, bytes] | None,
        current_folder: Callable[[], str],
        *,
        whole_active: bool,
        new_folder: bool,
    ) -> None:
        self._files = files
        self._folder = folder
        self._current_folder = current_folder
        self.offset = offset
        self.generation = generation
        """Of the log when the job was made; a truncation since then makes the job worthless."""
        self._segments = segments
        self._other_paths = other_paths
        """Snapshots and whatever else was written since the last flush."""
        self._epochs = epochs
        """The file, and the version and content of the table to be in it; None if it is there."""
        self._syncs: list[File] = []
        self._completed: list[Segment] = []
        """Segments that are synced as a whole."""
        for segment in segments:
            segment.references += 1
            if segment is not segments[-1] or whole_active:
                self._syncs += segment.flush_indexes()
                self._completed.append(segment)
            else:
                self._syncs.append(segment.file)
        self._sync_folder = bool(other_paths) or any(segment.is_new for segment in segments)
        self._sync_parent = new_folder

    def run(self) -> None:
        """System calls only. OSError means that the directory is broken; never try again."""
        for file in self._syncs:
            file.sync()
        for path in self._other_paths:
            sync_if_exists(self._files, path)
        try:
            if self._epochs is not None:
                epochs_file, version, content = self._epochs
                epochs_file.write(self._folder, version, content)
            if self._sync_folder:
                self._files.sync_directory(self._folder)
        except FileNotFoundError:
            if self._current_folder() == self._folder:
                raise
            # The log was deleted meanwhile and its folder renamed; nobody needs it durable.
        if self._sync_parent:
            self._files.sync_directory(self._folder.rpartition("/")[0])

    def close(self, *, done: bool) -> None:
        """Gives the files back, on the loop."""
        if done:
            for segment in self._completed:
                segment.is_synced = True
        for segment in self._segments:
            if done:
                segment.is_new = False
            segment.release()
