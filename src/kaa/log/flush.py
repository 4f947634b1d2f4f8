"""Making a log durable, off the loop.

`UnifiedLog.flush_job` collects on the loop what has to be synced, `run` makes the system calls
on any thread, `UnifiedLog.complete_flush` moves the recovery point. Below the recovery point all
data is durable, and so are the leader epochs that start there.

The indexes of the active segment are not synced with it, since recovery rebuilds them in any
case; they are synced when the segment has been sealed, and at a clean stop. Recovery must therefore
never start after a segment whose indexes are not synced: what goes into the checkpoint is
`UnifiedLog.recovery_checkpoint`, which lies inside the oldest such segment.

Jobs of one log may overlap: a group commit and a flush after a roll know nothing of each other.
Each syncs all that its own offset needs. Only the file of leader epochs is replaced by name; one
writer at a time does that, and an older table never follows a newer one.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from kaa.log.files import sync_if_exists, write_atomically, write_new
from kaa.log.leader_epochs import encode_epochs
from kaa.log.names import LEADER_EPOCH_CHECKPOINT_FILE
from kaa.log.producer_snapshots import encode_producer_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.log.files import File, Files
    from kaa.log.leader_epochs import EpochEntry, LeaderEpochCache
    from kaa.log.producer_state import ProducerEntry
    from kaa.log.segment import Segment


class EpochsFile:
    """The leader-epoch checkpoint of one log, written from whichever thread runs a flush."""

    __slots__ = ("_files", "_lock", "_stored", "durable_version")

    def __init__(self, files: Files, stored: list[EpochEntry] | None) -> None:
        """`stored` is the table that was loaded; None if that is not what the file says."""
        self._files = files
        self._lock = Lock()
        # Of the table that is on disk.
        self.durable_version = 0
        self._stored = stored

    def write(self, folder: str, version: int, entries: list[EpochEntry]) -> None:
        with self._lock:
            if version > self.durable_version:
                path = f"{folder}/{LEADER_EPOCH_CHECKPOINT_FILE}"
                write_atomically(self._files, path, encode_epochs(entries))
                self.durable_version = version
                self._stored = entries

    def is_durable(self, epochs: LeaderEpochCache, log_end_offset: int) -> bool:
        """Whether the file has every epoch in which something was written."""
        if epochs.version <= self.durable_version:
            return True
        return self._stored is not None and _written(self._stored, log_end_offset) == _written(
            epochs.entries, log_end_offset
        )


def _written(entries: list[EpochEntry], log_end_offset: int) -> list[EpochEntry]:
    return [entry for entry in entries if entry.start_offset < log_end_offset]


class FlushJob:
    """Files to sync so that everything below `offset` is durable."""

    __slots__ = (
        "_completed",
        "_epochs",
        "_files",
        "_folder",
        "_is_renamed",
        "_other_paths",
        "_segments",
        "_sync_folder",
        "_sync_parent",
        "_syncs",
        "generation",
        "offset",
        "snapshots",
    )

    def __init__(
        self,
        files: Files,
        folder: str,
        offset: int,
        generation: int,
        segments: list[Segment],
        other_paths: list[str],
        epochs: tuple[EpochsFile, int, list[EpochEntry]] | None,
        is_renamed: Callable[[], bool],
        *,
        whole_active: bool,
        new_folder: bool,
        snapshots: list[tuple[int, str, list[ProducerEntry]]],
    ) -> None:
        self._files = files
        self._folder = folder
        # Whether the folder has another name by now, or is about to get one.
        self._is_renamed = is_renamed
        self.offset = offset
        # Of the log when the job was made; a truncation since then makes the job worthless.
        self.generation = generation
        self._segments = segments
        # Snapshots and whatever else was written since the last flush.
        self._other_paths = other_paths
        # The file, and the version and content of the table to be in it; None if it is there.
        self._epochs = epochs
        # Producers to be written: the offset, the path and the entries of each.
        self.snapshots = snapshots
        self._syncs: list[File] = []
        # Segments that are synced as a whole, with the changes of their aborted transactions.
        self._completed: list[tuple[Segment, int]] = []
        for segment in segments:
            if segment is not segments[-1] or whole_active:
                self._syncs += segment.flush_indexes()
                self._completed.append((segment, segment.transaction_index.changes))
            else:
                self._syncs.append(segment.file)
        # Only now, when all files are open: a job that cannot be made would keep what it has.
        for segment in segments:
            segment.references += 1
        self._sync_folder = (
            bool(other_paths or snapshots)
            or any(segment.is_new for segment in segments)
            or any(
                segment.transaction_index.durable_changes < changes
                for segment, changes in self._completed
            )
        )
        self._sync_parent = new_folder

    def run(self) -> None:
        """System calls only. OSError means that the directory is broken; never try again."""
        for file in self._syncs:
            file.sync()
        for path in self._other_paths:
            sync_if_exists(self._files, path)
        try:
            for _, path, producers in self.snapshots:
                write_new(self._files, path, encode_producer_snapshot(producers))
                sync_if_exists(self._files, path)
            if self._epochs is not None:
                epochs_file, version, entries = self._epochs
                epochs_file.write(self._folder, version, entries)
            if self._sync_folder:
                self._files.sync_directory(self._folder)
        except FileNotFoundError:
            if not self._is_renamed():
                raise
            # The log was deleted meanwhile and its folder renamed; nobody needs it durable.
        if self._sync_parent:
            self._files.sync_directory(self._folder.rpartition("/")[0])

    def close(self, *, done: bool) -> None:
        """Gives the files back, on the loop."""
        if done:
            for segment, changes in self._completed:
                segment.is_synced = True
                segment.transaction_index.durable_changes = changes
        for segment in self._segments:
            if done:
                segment.is_new = False
            segment.release()

    def rest_sealed(self, active: Segment) -> None:
        """Closes the descriptors of segments that nothing is appended to, after `close`. Else those
        that rolled would keep three each until the next look at retention. After a truncation the
        active segment of the log may be among them.
        """
        for segment in self._segments:
            if segment is not active:
                segment.rest()
