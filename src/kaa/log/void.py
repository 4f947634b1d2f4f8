"""Logs that count for nothing any more though their folders may still have the plain name.

When a disk fails while a log is made or moved, another log takes its place and goes on. The folder
on the disk that failed cannot be renamed. If that disk is back while the other one is away, nothing
in it tells that its log is an old one, or never got a record: it would be led. So that is noted,
before anything is written to the other log, and where no log directory can take it along: in the
metadata directory, without which no node starts. The file has a line for each such log, which an
operator may take out to go on with that log nevertheless, with these fields:

| field | what it is |
|---|---|
| topic, partition | the name of the folder |
| topic id | zeros if it is not known |
| directory id | the directory in which that log counts for nothing |
| copy | the name of the future log that takes its place, `-` if it is none |

There is no file before there is something to note. Writing goes through `write_atomically`, so a
crash leaves the old or the new notes. A note goes when the folder has another name, or its topic is
gone.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from kaa.log.errors import (
    CorruptFileError,
    ShortageError,
    StorageError,
    error_text,
    is_shortage,
)
from kaa.log.files import read_whole, write_atomically
from kaa.model.topics import TopicPartition
from kaa.wire.primitives import UUID_ZERO, Uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kaa.log.dirs import LogDirectory
    from kaa.log.files import Files

VOID_LOGS_FILE = "void-logs"
NO_COPY = "-"


class VoidLog(NamedTuple):
    """The log of a partition in one directory; `copy` is the folder name of its future log."""

    partition: TopicPartition
    topic_id: Uuid
    directory_id: Uuid
    copy: str

    @property
    def known_topic_id(self) -> Uuid | None:
        return None if self.topic_id == UUID_ZERO else self.topic_id


class VoidLogs:
    """The notes of a broker; the log manager reads them at the start. Any thread may add one."""

    def __init__(self, files: Files) -> None:
        self._files = files
        # Where they are kept; in memory alone as long as it is not set.
        self.path: str | None = None
        self._lock = Lock()
        self.notes: frozenset[VoidLog] = frozenset()

    def load(self, report: Callable[[str], None]) -> None:
        """Reads the notes. StorageError."""
        if self.path is None:
            return
        try:
            content = read_whole(self._files, self.path)
            self.notes = frozenset(_decode(self.path, line) for line in content.splitlines())
        except FileNotFoundError:
            return
        except CorruptFileError as error:
            report(
                f"{error}: it names old logs that must not be served, on disks that had failed. "
                "Stop the broker if not all disks are there, and delete the file when they are"
            )
        except OSError as error:
            raise StorageError(f"{self.path} cannot be read: {error_text(error)}") from error

    def note(
        self,
        partition: TopicPartition,
        topic_id: Uuid | None,
        directory: LogDirectory,
        copy: str = NO_COPY,
    ) -> None:
        """Has the log of a partition count for nothing in a directory that failed, durably.
        StorageError, and then nothing may be written to the log that takes its place.
        """
        if directory.directory_id is None:
            return
        note = VoidLog(partition, topic_id or UUID_ZERO, directory.directory_id, copy)
        with self._lock:
            self._replace(self.notes | {note})

    def free(
        self, partition: TopicPartition, directory: LogDirectory, sync: Callable[[], None]
    ) -> None:
        """Before there is another log of that name in a directory, has it count again, durably.
        `sync` makes durable that the folder of the old one has another name; its OSError is the
        caller's. StorageError if the notes cannot be written.
        """
        place = partition, directory.directory_id
        notes = [note for note in self.notes if (note.partition, note.directory_id) == place]
        if notes:
            sync()
            self.discard(notes)

    def discard(self, notes: Collection[VoidLog]) -> None:
        """Durably. StorageError."""
        with self._lock:
            self._replace(self.notes.difference(notes))

    def _replace(self, notes: frozenset[VoidLog]) -> None:
        if self.path is not None and notes != self.notes:
            lines = sorted(" ".join(map(str, (*note.partition, *note[1:]))) for note in notes)
            content = "".join(f"{line}\n" for line in lines).encode()
            try:
                write_atomically(self._files, self.path, content)
            except OSError as error:
                text = f"{self.path} cannot be written: {error_text(error)}"
                raise (ShortageError if is_shortage(error) else StorageError)(text) from error
        self.notes = notes

    def of(self, partition: TopicPartition, directory_id: Uuid | None) -> set[Uuid]:
        """The ids of the topics whose logs of that name count for nothing in a directory."""
        return {
            note.topic_id
            for note in self.notes
            if (note.partition, note.directory_id) == (partition, directory_id)
        }

    def has(
        self, partition: TopicPartition, directory_id: Uuid | None, topic_id: Uuid | None
    ) -> bool:
        """Whether a log counts for nothing. Without the id of its topic it may not have been made
        to its end.
        """
        found = self.of(partition, directory_id)
        return bool(found) and (topic_id is None or not found.isdisjoint({topic_id, UUID_ZERO}))

    def has_copy(self, partition: TopicPartition, name: str) -> bool:
        """Whether a future log was about to take the place of one that counts for nothing."""
        return any((note.partition, note.copy) == (partition, name) for note in self.notes)


def _decode(path: str, line: bytes) -> VoidLog:
    try:
        topic, number, topic_id, directory_id, copy = line.decode().split()
        partition = TopicPartition(topic, int(number))
        return VoidLog(partition, Uuid.parse(topic_id), Uuid.parse(directory_id), copy)
    except ValueError:
        raise CorruptFileError(path, "a line is not topic, partition, ids and copy") from None
