"""What a table must offer, whatever keeps it; ``iceberg`` and ``folder`` do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaa.spark.formats.untyped import Schema
    from kaa.spark.lake.partitioning import Part, Term
    from kaa.spark.lake.store import Store


class LakeError(Exception):
    """Something about a table that a user should read."""


class ConflictError(Exception):
    """The table was not at the version that a commit named; nothing was changed."""


class UnknownOutcomeError(Exception):
    """A commit was sent and not answered."""


class StaleRoundError(Exception):
    """The files of a round cannot be committed any more; it has to be written anew."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A Parquet file that a task has written."""

    url: str
    rows: int
    size_bytes: int
    part: Part
    is_dead_letters: bool
    partition: int
    first_offset: int
    last_offset: int
    footer: bytes = field(default=b"", repr=False)  # pyarrow's FileMetaData, pickled.


@dataclass(frozen=True, slots=True)
class DataFileInfo:
    """A file that belongs to the table."""

    url: str
    rows: int
    size_bytes: int
    part: Part
    handle: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TableState:
    """What the newest commit says."""

    version: str
    offsets: Mapping[int, int]
    commit_id: str
    topic_id: str | None
    committed_ms: int | None = None
    mode: str = "append"


@dataclass(frozen=True, slots=True)
class TableCommit:
    """Files and offsets that become part of the table together."""

    commit_id: str
    offsets: Mapping[int, int]
    topic_id: str | None
    mode: str
    added: Sequence[WrittenFile] = ()
    removed: Sequence[DataFileInfo] = ()


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


class LakeTable(Protocol):
    """One table with its dead letters. Every method looks at the table anew."""

    terms: tuple[Term, ...]

    def load(self) -> TableState:
        """The state of the table, which is made if it is not there."""

    def prepare(self, schema: Schema) -> WritePlace:
        """Gives the table the columns it lacks, and says how to write."""

    def commit(self, version: str, commit: TableCommit) -> None:
        """Commits if the table is at the version.

        Raises ConflictError, UnknownOutcomeError or StaleRoundError.
        """

    def files(self, offset_state: TableState | None = None) -> list[DataFileInfo]:
        """The files of the newest version, or of the one of a state."""

    def history(self) -> list[TableState]:
        """The states that can still be read, oldest first."""

    def schema(self) -> Schema:
        """The columns of the table."""
