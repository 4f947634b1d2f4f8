"""What a table must offer, whatever keeps it; `iceberg` and `folder` do."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kaa.limits import LAKE_ORPHAN_AGE_SECONDS
from kaa.spark.formats.untyped import pa
from kaa.spark.lake.store import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaa.spark.formats.untyped import RecordBatch, Schema
    from kaa.spark.lake.partitioning import Part, Term
    from kaa.spark.lake.settings import LakeSettings
    from kaa.spark.lake.store import Store


class LakeError(Exception):
    """Something about a table that a user should read."""


class NoTableError(LakeError):
    """There is no such table."""


class TableAwayError(LakeError):
    """The catalog or the store did not do what it was asked; trying again may help.

    It was not asked for a commit of rows: what came of that is then an unknown outcome.
    """


class ConflictError(Exception):
    """The table was not at the version that a commit named; nothing was changed."""


class UnknownOutcomeError(Exception):
    """A commit was sent and not answered."""


class StaleRoundError(Exception):
    """The files of a round can no longer be committed; they have to be rewritten."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A Parquet file that a task has written."""

    url: str
    rows: int
    size_bytes: int
    part: Part
    is_dead_letters: bool
    # Of dead letters, whose files have one partition each.
    partition: int
    first_offset: int
    last_offset: int
    # The number of the partitioning that `part` belongs to.
    spec: int = 0
    footer: bytes = field(default=b"", repr=False)  # pyarrow's FileMetaData, pickled.
    # In seconds since 1970, by the clock of the task.
    written_at: float = field(default_factory=time.time, compare=False)


@dataclass(frozen=True, slots=True)
class WrittenDeletes:
    """A file with positions of deleted rows that a task has written, all of one part."""

    url: str
    rows: int
    size_bytes: int
    part: Part
    # The first and the last data file that it names, in the order of their paths.
    first_path: str
    last_path: str
    spec: int = 0


@dataclass(frozen=True, slots=True)
class DataFileInfo:
    """A file that belongs to the table."""

    url: str
    rows: int
    size_bytes: int
    part: Part
    # Pyiceberg's file, and the files with the positions of its deleted rows.
    handle: Any = field(default=None, repr=False, compare=False)
    deletes: tuple[Any, ...] = field(default=(), repr=False, compare=False)
    # Whether its part is one of the partitioning that the table has now.
    is_current: bool = True


def check_old_files(store: Store, files: Sequence[WrittenFile]) -> None:
    """Whether files are still there that were written so long ago that they may count as orphans.

    Raises StaleRoundError.
    """
    limit = time.time() - LAKE_ORPHAN_AGE_SECONDS / 2
    old = [path_of(one.url) for one in files if one.written_at < limit]
    if not old:
        return
    for info in store.filesystem().get_file_info(old):
        if not info.is_file:
            raise StaleRoundError(
                f"{info.path} was removed as an orphan: it was written more than "
                f"{LAKE_ORPHAN_AGE_SECONDS / 3600:.0f} hours before its commit"
            )


def needless_deletes(files: Sequence[DataFileInfo], removed: Sequence[DataFileInfo]) -> list[str]:
    """Of the files with deletes, those that concern removed files and no others."""
    gone = {one.url for one in removed}
    needed = {delete.file_path for one in files if one.url not in gone for delete in one.deletes}
    return sorted({one.file_path for file in removed for one in file.deletes} - needed)


@dataclass(frozen=True, slots=True)
class TableState:
    """What the newest commit says."""

    version: str
    offsets: Mapping[int, int]
    commit_id: str
    topic_id: str | None
    committed_ms: int | None = None
    mode: str = "append"
    # Why the offsets cannot be gone on from, for a user to read.
    problem: str | None = None
    # A branch or a tag names this version.
    is_named: bool = False

    def trusted(self) -> TableState:
        """Itself, if it can be gone on from."""
        if self.problem is not None:
            raise LakeError(self.problem)
        return self


@dataclass(frozen=True, slots=True)
class TableCommit:
    """Files and offsets that become part of the table together."""

    commit_id: str
    # None leaves the progress of the table as it is.
    offsets: Mapping[int, int] | None
    topic_id: str | None
    mode: str
    added: Sequence[WrittenFile] = ()
    removed: Sequence[DataFileInfo] = ()
    deletes: Sequence[WrittenDeletes] = ()
    # Files with deleted positions that no file of the table needs any more.
    removed_deletes: Sequence[str] = ()
    # The added files have the rows of the removed ones, and no others.
    is_replacement: bool = False


@dataclass(frozen=True, slots=True)
class WritePlace:
    """Where and as what tasks write."""

    store: Store
    data_url: str
    dead_url: str
    schema: Schema
    dead_schema: Schema
    # Bad records before these offsets are in the dead-letter table already.
    dead_from: Mapping[int, int]
    # The number of the partitioning that the table has now.
    spec: int = 0
    # What records call a column that has another name in the table.
    sources: Mapping[str, str] = field(default_factory=dict)

    def source_of(self, name: str) -> str:
        """The column of the rows that a column of the table is made of."""
        return self.sources.get(name, name)

    @property
    def source_schema(self) -> Schema:
        """The columns by the names that records know."""
        return pa.schema([one.with_name(self.source_of(one.name)) for one in self.schema])


class FileReader(Protocol):
    """Reads files of one table; pickled to tasks."""

    def batches(self, file: DataFileInfo, schema: Schema) -> Iterator[RecordBatch]:
        """The rows of a file that are not deleted, in columns of the table."""


class LakeTable(Protocol):
    """One table with its dead letters. Every method looks at the table as it is then."""

    # What the table keeps stands in them, whatever was asked for.
    settings: LakeSettings
    terms: tuple[Term, ...]

    def reader(self) -> FileReader:
        """What reads the files of the table."""

    def sources(self) -> dict[str, str]:
        """What records call those columns that have another name."""

    def exists(self) -> bool:
        """Whether there is such a table."""

    def load(self) -> TableState:
        """The state of the table, which is made if it is not there."""

    def state(self) -> TableState:
        """The state of a table that is there."""

    def prepare(self, schema: Schema) -> WritePlace:
        """Gives the table the columns it lacks, and says how to write."""

    def commit(self, version: str, commit: TableCommit) -> None:
        """Commits if the table is at the version.

        Raises ConflictError, UnknownOutcomeError or StaleRoundError.
        """

    def files(self, offset_state: TableState | None = None) -> list[DataFileInfo]:
        """The files of the newest version, or of the one of a state."""

    def history(self) -> list[TableState]:
        """The versions that can still be read, oldest first; offsets may be missing."""

    def known_offsets(self) -> list[TableState]:
        """Those of them whose offsets are still known."""

    def schema(self) -> Schema:
        """The columns of the table."""
