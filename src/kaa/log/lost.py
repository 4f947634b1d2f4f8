"""Logs that were here and are gone, or are not whole.

A log that the checkpoint of its directory names, and of which there is no folder in any, was
removed by somebody else: by hand, or by the repair of a file system. It is lost, and known to be,
unless a folder beside the checkpoint shows that it was the log of a topic that was deleted. A copy
of it in another directory, of a move that was under way, may lack what was written last, and does
not change that. Where a swap had begun, the copy had everything; then the folder of the source is
there, marked as deleted and with the number of the copy in its name (`kaa.log.futures`). No other
folder proves that: one that is marked may be left of an earlier move, or of one that was given up.

A log whose folder is there and that is not whole any more is lost likewise. Its folder stays as it
is until there is another log of that name. So does a copy that is not whole, until its move begins
again, and a log that counts for nothing since another one went on in its place (`kaa.log.void`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kaa.log.errors import CorruptFileError, StorageError
from kaa.log.names import DELETE_FOLDER_SUFFIX, FUTURE_FOLDER_SUFFIX, STRAY_FOLDER_SUFFIX
from kaa.log.properties import read_topic_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.log.dirs import LogDirectory
    from kaa.log.log import UnifiedLog
    from kaa.log.void import VoidLog, VoidLogs
    from kaa.model.topics import TopicPartition
    from kaa.wire.primitives import Uuid

    # Whether this node has a replica of a partition, of the topic with that id.
    IsOurs = Callable[[TopicPartition, Uuid | None], bool]


class LogExtent(NamedTuple):
    """Of two logs the greater one is the later one."""

    leader_epoch: int
    end_offset: int
    start_offset: int


class Outdone(NamedTuple):
    """A log of which another directory had a later one, with how far both have come."""

    progress: LogExtent
    served_in: str
    served_progress: LogExtent


class LostLogsHost(Protocol):
    """What is needed of the log manager."""

    logs: dict[TopicPartition, UnifiedLog]
    directories: list[LogDirectory]
    void: VoidLogs

    @property
    def online_directories(self) -> list[LogDirectory]: ...

    def put_away(
        self,
        directory: LogDirectory,
        folder: str,
        partition: TopicPartition,
        suffix: str,
        now_ms: int,
    ) -> None:
        """Has the name of a folder say that it is no log; a deleted one is removed later."""
        ...


class LostLogs:
    """Which logs of a broker are lost. Owned by the log manager, which says what it found."""

    def __init__(self, host: LostLogsHost) -> None:
        self._host = host
        # Logs and copies that are not whole and not served, by folder their directories.
        self._damaged: dict[TopicPartition, dict[str, LogDirectory]] = {}
        # Among them logs that count for nothing.
        self._void: set[str] = set()
        # Partitions of which several logs were found that do not tell which one is right.
        self._ambiguous: set[TopicPartition] = set()
        # Whether the folders of all directories are known.
        self._has_found_all = False
        # By folder those that were put aside for another log of the same partition.
        self.outdone: dict[str, Outdone] = {}
        # Folders that are no logs any more, deleted or put aside, with their directories.
        self._marked: dict[TopicPartition, dict[str, LogDirectory]] = {}

    # --- what is found

    def found_damaged(
        self, partition: TopicPartition, directory: LogDirectory, folder: str
    ) -> None:
        self._damaged.setdefault(partition, {})[folder] = directory

    def found_ambiguous(self, log: UnifiedLog) -> None:
        """One of several logs of a partition, none of which is served."""
        self.found_damaged(log.partition, log.directory, log.folder)
        self._ambiguous.add(log.partition)

    def is_ambiguous(self, partition: TopicPartition) -> bool:
        """Whether one more log of the partition must not be taken for the right one either."""
        return partition in self._ambiguous

    def found_marked(self, partition: TopicPartition, directory: LogDirectory, folder: str) -> None:
        self._marked.setdefault(partition, {})[folder] = directory

    def found_void(
        self, partition: TopicPartition, directory: LogDirectory, folder: str, is_ours: IsOurs
    ) -> bool:
        """Whether a log is one that counts for nothing: another one went on in its place. That of
        a topic which is not there any more is like any other.
        """
        void, directory_id = self._host.void, directory.directory_id
        if not void.of(partition, directory_id):
            return False
        topic_id = _topic_id(directory, folder)
        is_foreign = topic_id is not None and not is_ours(partition, topic_id)
        if is_foreign or not void.has(partition, directory_id, topic_id):
            return False
        self.found_damaged(partition, directory, folder)
        self._void.add(folder)
        return True

    def found_all(self) -> None:
        """Keeps the entries of logs that are gone, and those alone."""
        self._has_found_all = True
        for directory in self._host.online_directories:
            known = {*self._host.logs, *directory.futures}
            entries = directory.lost
            directory.lost = {name: at for name, at in entries.items() if name not in known}
            if entries:
                try:
                    directory.checkpoint_recovery_points()
                    directory.checkpoint_log_start_offsets()
                except StorageError:
                    continue

    def forget_deleted(self, is_ours: IsOurs) -> None:
        """Drops the entries of logs whose topics were deleted: they would be taken for entries of
        their successors. `is_ours` knows the topics that are there.
        """
        for directory in self._host.online_directories:
            for partition in tuple(directory.lost):
                if self._was_deleted(partition, directory, is_ours):
                    self._drop_entry(partition, directory)
        self._discard_void(
            {
                note
                for note in self._host.void.notes
                if not is_ours(note.partition, note.known_topic_id)
            }
        )

    def _was_deleted(
        self,
        partition: TopicPartition,
        directory: LogDirectory,
        is_ours: IsOurs,
    ) -> bool:
        """Whether the log that was in a directory is one whose topic is not there any more."""
        folders = [at for at, its in self._marked.get(partition, {}).items() if its is directory]
        topic_ids = {_topic_id(directory, folder) for folder in folders} - {None}
        return any(not is_ours(partition, topic_id) for topic_id in topic_ids)

    # --- what is known

    def has_swapped(self, future: UnifiedLog) -> bool:
        """Whether a swap had begun to put a future log in the place of its source: it has all that
        was in that one.
        """
        name = future.folder.rpartition("/")[2]
        if self._host.void.has_copy(future.partition, name):
            return True
        name = name.removesuffix(FUTURE_FOLDER_SUFFIX)
        names = {name + DELETE_FOLDER_SUFFIX, name + STRAY_FOLDER_SUFFIX}
        return any(
            directory.is_online and folder.rpartition("/")[2] in names
            for folder, directory in self._marked.get(future.partition, {}).items()
        )

    def void_folders(self, partition: TopicPartition) -> list[str]:
        """Folders with logs that count for nothing."""
        return [folder for folder in self._damaged.get(partition, {}) if folder in self._void]

    @property
    def partitions(self) -> set[TopicPartition]:
        """Those that are lost, or have a folder that is not whole."""
        lost = {partition for each in self._host.directories for partition in each.lost}
        return lost | self._damaged.keys()

    def has(self, partition: TopicPartition) -> bool:
        """Whether there was a log of the partition, in a directory that is online, and something
        other than this broker has removed or damaged it, or a copy of it.
        """
        return partition in self._damaged or any(
            partition in directory.lost for directory in self._host.directories
        )

    def was_there(self, directory_id: Uuid | None) -> bool:
        """Whether a log that is not found was in a directory, None for any, by what the metadata
        and the directory tell: no broker seems to have run with it, so that all is gone that was
        there; or the metadata has the directory from this broker, which reports only folders that
        are durable. Where a broker has one directory, the controller knows it without a report.
        """
        online = self._host.online_directories
        if directory_id is None:
            return all(directory.is_unused for directory in online)
        is_reported = len(self._host.directories) > 1
        return any(
            each.is_unused or is_reported for each in online if each.directory_id == directory_id
        )

    def add(self, partition: TopicPartition, directory_id: Uuid | None) -> None:
        """Notes that a log was removed which no checkpoint names."""
        online = self._host.online_directories
        found = [each for each in online if each.directory_id == directory_id] or online
        found[0].lost[partition] = 0

    # --- what becomes of it

    def forget(self, partition: TopicPartition, suffix: str, now_ms: int) -> None:
        """There is to be another log of that name, or none any more."""
        for folder, directory in self._damaged.pop(partition, {}).items():
            self._host.put_away(directory, folder, partition, suffix, now_ms)
        for directory in self._host.directories:
            if partition in directory.lost:
                self._drop_entry(partition, directory)
        if self._host.void.notes:
            self._settle_void()

    def _drop_entry(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """It must be gone from the checkpoint before there is a log of that name again."""
        del directory.lost[partition]
        directory.stale[partition] = directory.number_checkpoint()

    def drop_damaged_copy(self, source: UnifiedLog, now_ms: int) -> LogDirectory | None:
        """Gives a future log up that is not whole; the directory to copy its source to again,
        unless the copy was of an earlier topic of that name.
        """
        partition, target = source.partition, None
        for folder, directory in self._take_damaged(partition, are_copies=True).items():
            if _topic_id(directory, folder) in {None, source.topic_id}:
                target = directory
            self._host.put_away(directory, folder, partition, DELETE_FOLDER_SUFFIX, now_ms)
        return target

    def put_served_aside(self, now_ms: int) -> None:
        """Frees the names of damaged logs of which there is another, whole one: a move may bring
        that one into the same directory.
        """
        for partition in self._damaged.keys() & self._host.logs.keys():
            damaged = self._take_damaged(partition, are_copies=False)
            for folder, directory in damaged.items():
                self._host.put_away(directory, folder, partition, STRAY_FOLDER_SUFFIX, now_ms)
        self._settle_void()

    def _settle_void(self) -> None:
        """Forgets that logs count for nothing whose folders have other names by now, before there
        is another log of that name in the same directory.
        """
        void = self._host.void
        if not self._has_found_all or not void.notes:
            return
        left = {
            (partition, directory.directory_id)
            for partition, folders in self._damaged.items()
            for folder, directory in folders.items()
            if folder in self._void
        }
        settled: set[VoidLog] = set()
        for directory in self._host.online_directories:
            own = {note for note in void.notes if note.directory_id == directory.directory_id}
            own = {note for note in own if (note.partition, note.directory_id) not in left}
            try:
                if own:
                    # Else a power cut would bring the plain names back.
                    directory.files.sync_directory(directory.path)
                settled |= own
            except OSError as error:
                directory.fail_unless_short(error)
        self._discard_void(settled)

    def _discard_void(self, notes: set[VoidLog]) -> None:
        # A note too many does no harm until there is another log of that name, which frees it.
        with suppress(StorageError):
            self._host.void.discard(notes)

    def _take_damaged(
        self, partition: TopicPartition, *, are_copies: bool
    ) -> dict[str, LogDirectory]:
        taken: dict[str, LogDirectory] = {}
        left: dict[str, LogDirectory] = {}
        for folder, directory in self._damaged.pop(partition, {}).items():
            is_copy = folder.endswith(FUTURE_FOLDER_SUFFIX)
            (taken if is_copy is are_copies else left)[folder] = directory
        if left:
            self._damaged[partition] = left
        return taken


def _topic_id(directory: LogDirectory, folder: str) -> Uuid | None:
    try:
        return read_topic_id(directory.files, folder)
    except (CorruptFileError, OSError):
        return None


def is_emptied(log: UnifiedLog, recovery_point: int) -> bool:
    """Whether somebody has removed the segments of a log: it has nothing, and ends before what was
    made durable. One that was trimmed to its end ends there.
    """
    end = log.log_end_offset
    return end < recovery_point and end == log.segments.first.base_offset


def progress(log: UnifiedLog) -> LogExtent:
    """How far a log has come when it was loaded, to compare it with a copy of it that a crash has
    left. Only one of the two may know of an epoch in which nothing was written. Of a log that was
    trimmed to its end nothing but the file of epochs tells the last one.
    """
    epoch = log.leader_epochs.epoch_for_offset(log.log_end_offset - 1)
    if epoch is None and log.log_end_offset > 0:
        epoch = log.loaded_epoch
    return LogExtent(-1 if epoch is None else epoch, log.log_end_offset, log.log_start_offset)
