"""What a stream reads of a table, in which order, and how far it is.

A stream begins with all files of one snapshot, or after a snapshot, and goes on with the files
that each later snapshot added, in the order of their paths. So a position is a snapshot and how
many of its files were read:

| part | meaning |
|---|---|
| snapshot | its id, or `none`: before the first one |
| index | how many of its files were read; -1 when that is all |
| whole | whether these are all files of the snapshot, or those that it added |

Files of a snapshot never change, so that a position means the same rows for ever: a batch that is
repeated reads what it read before. A snapshot that *replaces* files has no new rows and is passed
over. One that overwrites or deletes takes rows back that the stream may have read; what is done
then, the user says: fail, pass over it, or take the rows that it added. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from kaa.spark.lake.table import LakeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaa.spark.lake.table import DataFileInfo

BEFORE_ALL: Final = "none"
ALL: Final = -1
Changes = Literal["fail", "skip", "added"]


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """How far a stream is."""

    snapshot: str
    index: int = ALL
    is_whole: bool = False

    def write(self) -> dict[str, Any]:
        """For the checkpoint, where Spark compares positions as text."""
        return {"index": self.index, "snapshot": self.snapshot, "whole": self.is_whole}

    @staticmethod
    def read(given: Mapping[str, Any]) -> StreamPosition | None:
        """The position in an offset of Spark; None where it has none."""
        if "snapshot" not in given:
            return None
        return StreamPosition(str(given["snapshot"]), int(given["index"]), bool(given["whole"]))


@dataclass(frozen=True, slots=True)
class Version:
    """A snapshot, and what Iceberg says that it did."""

    snapshot: str
    operation: str


class TableVersions(Protocol):
    """The snapshots of a table."""

    def lineage(self) -> Sequence[Version]:
        """Those that the current one came from, oldest first, itself last."""

    def added(self, snapshot: str) -> Sequence[DataFileInfo]:
        """The data files that a snapshot added."""

    def whole(self, snapshot: str) -> Sequence[DataFileInfo]:
        """All data files of a snapshot."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one batch takes; one file is always taken."""

    files: int | None = None
    size_bytes: int | None = None


def later(
    versions: TableVersions, start: StreamPosition, head: str, changes: Changes
) -> Iterator[tuple[DataFileInfo | None, StreamPosition]]:
    """The files after a position up to the snapshot `head`, each with the position after it.

    A snapshot without files gives its position alone.
    """
    if start.index != ALL:
        files = versions.whole if start.is_whole else versions.added
        yield from _files(files(start.snapshot), start.snapshot, start.index, start.is_whole)
    for version in _behind(versions.lineage(), start.snapshot, head):
        if version.operation in {"overwrite", "delete"} and changes == "fail":
            raise LakeError(
                f"snapshot {version.snapshot} of the table is an {version.operation}, which takes "
                "rows back that the stream may have read; option changes=skip passes over it, and "
                "changes=added takes the rows that it added"
            )
        takes = version.operation == "append" or (
            version.operation == "overwrite" and changes == "added"
        )
        added = versions.added(version.snapshot) if takes else ()
        yield from _files(added, version.snapshot, 0, is_whole=False)


def _files(
    files: Sequence[DataFileInfo], snapshot: str, first: int, is_whole: bool
) -> Iterator[tuple[DataFileInfo | None, StreamPosition]]:
    ordered = sorted(files, key=lambda one: one.url)
    if first >= len(ordered):
        yield None, StreamPosition(snapshot)
    for number, file in enumerate(ordered[first:], first + 1):
        is_last = number == len(ordered)
        yield (
            file,
            StreamPosition(snapshot) if is_last else StreamPosition(snapshot, number, is_whole),
        )


def _behind(lineage: Sequence[Version], start: str, head: str) -> list[Version]:
    names = [one.snapshot for one in lineage]
    if head not in names:
        raise LakeError(f"snapshot {head} is no longer in the history of the table")
    known = list(lineage[: names.index(head) + 1])
    if start == BEFORE_ALL:
        return known
    if start not in names:
        raise LakeError(
            f"snapshot {start}, up to which the stream has read, is no longer in the history of "
            "the table: it was expired, or the table was rolled back; start with a new "
            "checkpoint"
        )
    return known[names.index(start) + 1 :]


def end_of_batch(
    versions: TableVersions, start: StreamPosition, head: str, changes: Changes, limits: Limits
) -> StreamPosition:
    """Where a batch ends that begins at a position."""
    end, files, size = start, 0, 0
    for file, after in later(versions, start, head, changes):
        if file is not None:
            is_full = (limits.files is not None and files >= limits.files) or (
                limits.size_bytes is not None and size + file.size_bytes > limits.size_bytes
            )
            if files and is_full:
                break
            files += 1
            size += file.size_bytes
        end = after
    return end


def files_between(
    versions: TableVersions, start: StreamPosition, end: StreamPosition, changes: Changes
) -> list[DataFileInfo]:
    """The files of a batch."""
    found: list[DataFileInfo] = []
    if start == end:
        return found
    for file, after in later(versions, start, end.snapshot, changes):
        if file is not None:
            found.append(file)
        if after == end:
            return found
    raise LakeError("the files of a batch that is repeated are no longer in the table")
