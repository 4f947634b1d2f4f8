"""Work that a log manager hands out instead of doing it on the loop.

`run` makes system calls, or works on what nobody else touches, and may run on any thread.
Afterwards, on the loop, exactly one of `done` and `failed` is called. A failure takes the
directory offline; no job is tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kaa.log.checkpoints import encode_offset_checkpoint
from kaa.log.files import remove_tree, unlink_if_exists
from kaa.records.errors import RecordsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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

    def done(self, now_ms: int) -> None: ...

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
        self._log.complete_flush(self._flush, now_ms)

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
        self.directory.fail(error)


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


class RemoveJob:
    """Unlinks files and removes folders that no log uses any more."""

    __slots__ = ("_folders", "_paths", "directory")

    def __init__(
        self, directory: LogDirectory, paths: Iterable[str], folders: Iterable[str] = ()
    ) -> None:
        self.directory = directory
        self._paths = list(paths)
        self._folders = list(folders)

    def run(self) -> None:
        files = self.directory.files
        for path in self._paths:
            unlink_if_exists(files, path)
        for folder in self._folders:
            if files.exists(folder):
                remove_tree(files, folder)

    def done(self, now_ms: int) -> None:
        """What is gone needs no book-keeping."""

    def failed(self, error: OSError) -> None:
        self.directory.fail(error)
