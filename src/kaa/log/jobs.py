"""Work that a log manager hands out instead of doing it on the loop.

`run` makes system calls, or works on what nobody else touches, and may run on any thread.
Afterwards, on the loop, exactly one of `done` and `failed` is called. A failure takes the
directory offline; no job is tried again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kaa.limits import LOGS_PER_SLICE_MAX
from kaa.log.checkpoints import encode_offset_checkpoint
from kaa.log.errors import ShortageError, StorageError
from kaa.log.files import remove_tree, unlink_if_exists
from kaa.log.names import RECOVERY_POINT_CHECKPOINT_FILE
from kaa.records.errors import RecordsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaa.log.dirs import LogDirectory
    from kaa.log.files import File
    from kaa.log.flush import FlushJob
    from kaa.log.log import UnifiedLog
    from kaa.model.topics import TopicPartition


Result = TypeVar("Result")


class Job(Protocol):
    @property
    def directory(self) -> LogDirectory:
        """Jobs of one directory are best run one after the other: it is one disk."""
        ...

    def run(self) -> None:
        """OSError: the directory is broken."""
        ...

    def done(self, now_ms: int) -> None:
        """Raises nothing: a disk that fails here takes the directory offline, which is enough."""

    def failed(self, error: OSError) -> None: ...


class FlushLogJob:
    """Makes a log durable up to where it ended when the job was made."""

    __slots__ = ("_flush", "_log")

    def __init__(self, log: UnifiedLog) -> None:
        self._log = log
        self._flush: FlushJob = log.flush_job()

    @property
    def directory(self) -> LogDirectory:
        return self._log.directory

    def run(self) -> None:
        self._flush.run()

    def done(self, now_ms: int) -> None:
        with suppress(StorageError):
            self._log.complete_flush(self._flush, now_ms)
        if not self._log.is_cleaning:
            self._flush.rest_sealed(self._log.segments.active)

    def failed(self, error: OSError) -> None:
        self._log.fail_flush(self._flush, error)


class CheckpointJob:
    """Replaces an offset checkpoint, unless a table that was made later is there before it."""

    __slots__ = ("_name", "_number", "_offsets", "directory")

    def __init__(
        self,
        directory: LogDirectory,
        name: str,
        offsets: dict[TopicPartition, int],
        number: int | None = None,
    ) -> None:
        """The table belongs to the job; its number is a new one unless it was taken before."""
        self.directory = directory
        self._name = name
        self._number = directory.number_checkpoint() if number is None else number
        self._offsets = offsets

    def run(self) -> None:
        content = encode_offset_checkpoint(self._offsets)
        self.directory.replace_checkpoint(self._name, self._number, content)

    def done(self, now_ms: int) -> None:
        """Nobody waits for it."""

    def failed(self, error: OSError) -> None:
        # The next one has all of it.
        self.directory.fail_unless_short(error)


def checkpoint_in_pieces(
    directory: LogDirectory, name: str, value: Callable[[UnifiedLog], int | None]
) -> Iterator[CheckpointJob | None]:
    """The work of replacing a table that has the logs of a directory; None where others should have
    a turn. A table that was begun later takes precedence.
    """
    if not directory.is_online:
        return
    number = directory.number_checkpoint()
    offsets: dict[TopicPartition, int] = {}
    for count, log in enumerate(list(directory.every_log.values()), 1):
        found = value(log)
        if found is not None:
            offsets[log.partition] = found
        if count % LOGS_PER_SLICE_MAX == 0:
            yield None
    # What was deleted since the number was taken may be in the table.
    kept = directory.every_log
    gone = [partition for partition in offsets if partition not in kept]
    for partition in gone:
        del offsets[partition]
    if name == RECOVERY_POINT_CHECKPOINT_FILE:
        offsets = directory.with_lost(offsets)
    yield CheckpointJob(directory, name, offsets, number)


def recovery_checkpoint(log: UnifiedLog) -> int:
    return log.recovery_checkpoint


class SyncJob:
    """Syncs files that their maker keeps open."""

    __slots__ = ("_syncs", "directory")

    def __init__(self, directory: LogDirectory, syncs: list[File]) -> None:
        self.directory = directory
        self._syncs = syncs

    def run(self) -> None:
        for file in self._syncs:
            file.sync()

    def done(self, now_ms: int) -> None:
        """The maker of the job goes on by itself."""

    def failed(self, error: OSError) -> None:
        self.directory.fail(error)


class SyncFoldersJob:
    """Makes the folders of new logs durable, those of one directory at once."""

    __slots__ = ("_logs", "directory")

    def __init__(self, directory: LogDirectory) -> None:
        self.directory = directory
        self._logs, directory.new_logs = directory.new_logs, []

    def run(self) -> None:
        self.directory.files.sync_directory(self.directory.path)

    def done(self, now_ms: int) -> None:
        for log in self._logs:
            log.is_new = False

    def failed(self, error: OSError) -> None:
        if isinstance(self.directory.fail_unless_short(error), ShortageError):
            self.directory.new_logs += self._logs


class WorkJob(Generic[Result]):
    """Work in memory that takes long, such as expanding batches; `result` gives what it made."""

    __slots__ = ("_error", "_result", "_work", "directory")

    def __init__(self, directory: LogDirectory, work: Callable[[], Result]) -> None:
        self.directory = directory
        self._work = work
        self._result: Result
        self._error: RecordsError | None = None

    def run(self) -> None:
        try:
            self._result = self._work()
        except RecordsError as error:
            self._error = error

    def done(self, now_ms: int) -> None:
        """The maker of the job goes on by itself."""

    def failed(self, error: OSError) -> None:
        self.directory.fail(error)

    @property
    def result(self) -> Result:
        """RecordsError if that was what the work came to."""
        if self._error is not None:
            raise self._error
        return self._result


class RemoveFilesJob:
    """Unlinks files that a log has given up. At the end of a move its folder may get another name
    meanwhile: then they are due again, under that name.
    """

    __slots__ = ("_folder", "_log", "_paths", "directory")

    def __init__(self, log: UnifiedLog, paths: list[str]) -> None:
        self.directory = log.directory
        self._log = log
        self._folder = log.folder
        self._paths = paths

    def run(self) -> None:
        for path in self._paths:
            unlink_if_exists(self.directory.files, path)

    def done(self, now_ms: int) -> None:
        if self._log.folder != self._folder:
            self._log.doom_renamed(self._folder, self._paths)

    def failed(self, error: OSError) -> None:
        self.directory.fail(error)


class RemoveFolderJob:
    """Removes the folder of a deleted log."""

    __slots__ = ("_folder", "directory")

    def __init__(self, directory: LogDirectory, folder: str) -> None:
        self.directory = directory
        self._folder = folder

    def run(self) -> None:
        files = self.directory.files
        if files.exists(self._folder):
            remove_tree(files, self._folder)

    def done(self, now_ms: int) -> None:
        """What is gone needs no book-keeping."""

    def failed(self, error: OSError) -> None:
        # The next start removes what is left.
        self.directory.fail_unless_short(error)
