"""Logs that were here and are gone, or are not whole.

A log that the checkpoint of its directory names, and of which there is no folder in any, was
removed by somebody else: by hand, or by the repair of a file system. It is lost, and known to be. A
copy of it in another directory, of a move that was under way, may lack what was written last, and
does not change that; where the move had come to its end, the folder of the source is there, marked
as deleted.

A log whose folder is there and that is not whole any more is lost likewise. Its folder stays as it
is until there is another log of that name. So does a copy that is not whole, until its move begins
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kaa.log.errors import CorruptFileError, StorageError
from kaa.log.names import DELETE_FOLDER_SUFFIX, FUTURE_FOLDER_SUFFIX, STRAY_FOLDER_SUFFIX
from kaa.log.properties import read_topic_id

if TYPE_CHECKING:
    from kaa.log.dirs import LogDirectory
    from kaa.log.log import UnifiedLog
    from kaa.model.topics import TopicPartition
    from kaa.wire.primitives import Uuid


class LostLogsHost(Protocol):
    """What is needed of the log manager."""

    logs: dict[TopicPartition, UnifiedLog]
    directories: list[LogDirectory]

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
        # Partitions of which there was a folder that is no log any more: deleted or put aside.
        self._marked: set[TopicPartition] = set()

    # --- what is found

    def found_damaged(
        self, partition: TopicPartition, directory: LogDirectory, folder: str
    ) -> None:
        self._damaged.setdefault(partition, {})[folder] = directory

    def found_marked(self, partition: TopicPartition) -> None:
        self._marked.add(partition)

    def found_all(self) -> None:
        """Keeps the entries of logs that are gone, and those alone: one of a deleted log would be
        taken for one of its successor.
        """
        known = {*self._host.logs, *self._marked}
        for directory in self._host.online_directories:
            entries = directory.lost
            directory.lost = {name: at for name, at in entries.items() if name not in known}
            if entries:
                try:
                    directory.checkpoint_recovery_points()
                    directory.checkpoint_log_start_offsets()
                except StorageError:
                    continue

    # --- what is known

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
            if directory.lost.pop(partition, None) is not None:
                # Its entry must be gone before there is a log of that name again.
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
