"""Compaction: small files made large, deleted rows left out.

Files that are smaller than half of the wanted size, or that have deleted rows, are packed into
groups of about the wanted size, each within one part; files of an earlier partitioning are packed
across parts, and divided as the table is now. Every group is one task, on whatever executor is
free, which has the group in memory: the driver has names alone. Rows are sorted by partition and
offset, by the key where there is one row per key, or by columns that the user names.

Groups are committed together, some at a time, so that little is lost when the work is broken off.
The commit *replaces*: it changes no rows and leaves the offsets as they are, so streams skip it. If
somebody commits meanwhile, the same files are committed on top of that, and not written again; so
they are where no answer came and the table shows that the commit was not taken. A group is given up
if one of its files is gone or has new deletes: its rows are others now. What was written for it is
deleted then, unless a commit without an answer may have made it part of the table. Files of deletes
that concern no file any more are dropped with it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from kaa.limits import (
    LAKE_ATTEMPTS_MAX,
    LAKE_COMMIT_GROUPS,
    LAKE_SMALL_FILE_SHARE,
)
from kaa.spark.formats.untyped import pa
from kaa.spark.lake.files import read_all
from kaa.spark.lake.partitioning import divide
from kaa.spark.lake.running import LocalRunner, pause, reason_of
from kaa.spark.lake.table import (
    ConflictError,
    LakeError,
    StaleRoundError,
    TableCommit,
    UnknownOutcomeError,
    needless_deletes,
)
from kaa.spark.lake.writing import RowsPlace, delete_files, write_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.spark.formats.untyped import RecordBatch
    from kaa.spark.lake.partitioning import Part
    from kaa.spark.lake.running import Runner
    from kaa.spark.lake.table import (
        DataFileInfo,
        FileReader,
        LakeTable,
        WritePlace,
        WrittenFile,
    )

_ORDER: Final = ("partition", "offset")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files of one part that become one; without a part, some of an earlier partitioning."""

    part: Part | None
    files: tuple[DataFileInfo, ...]

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.files)


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """One group; pickled to an executor."""

    files: tuple[DataFileInfo, ...]
    reader: FileReader = field(repr=False)
    # Of any part: the rows say which.
    where: RowsPlace
    order: tuple[str, ...]


def plan_compaction(table: LakeTable) -> list[Rewrite]:
    """What would be written together. Files with deleted rows count as small."""
    small: dict[Part | None, list[DataFileInfo]] = {}
    wanted = table.settings.file_bytes
    for file in table.files():
        if file.deletes or file.size_bytes < wanted * LAKE_SMALL_FILE_SHARE:
            # Files of an earlier partitioning are divided again, so any of them may be together.
            small.setdefault(file.part if file.is_current else None, []).append(file)
    return [
        Rewrite(part, tuple(group))
        for part, files in small.items()
        for group in _packed(files, wanted)
        if part is None or len(group) > 1 or any(one.deletes for one in group)
    ]


def _packed(files: list[DataFileInfo], wanted: int) -> list[list[DataFileInfo]]:
    """Groups of at most the wanted size, as few as first fit finds, largest files first."""
    groups: list[list[DataFileInfo]] = []
    sizes: list[int] = []
    for file in sorted(files, key=lambda one: (-one.size_bytes, one.url)):
        fitting = (at for at, size in enumerate(sizes) if size + file.size_bytes <= wanted)
        at = next(fitting, len(groups))
        if at == len(groups):
            groups.append([])
            sizes.append(0)
        groups[at].append(file)
        sizes[at] += file.size_bytes
    return groups


def compact(
    table: LakeTable,
    plan: Sequence[Rewrite],
    runner: Runner | None = None,
    sort_by: Sequence[str] = (),
) -> int:
    """Carries the plan out, some of its lines in each commit; returns how many came through."""
    runner = runner or LocalRunner()
    strange = [one for one in sort_by if one not in table.schema().names]
    if strange:
        raise LakeError(f"there is no column {strange[0]} to sort by")
    done, step = 0, max(LAKE_COMMIT_GROUPS, runner.parallel)
    for at in range(0, len(plan), step):
        some = plan[at : at + step]
        commit_id = os.urandom(8).hex()
        place = table.prepare(table.schema())
        tasks = [_task(table, one, place, commit_id, sort_by) for one in some]
        try:
            made = runner.map(rewrite, tasks)
        except Exception as error:
            if (reason := reason_of(error)) is None:
                raise
            raise LakeError(f"files could not be written together: {reason}") from error
        done += _replace(table, dict(zip(some, made, strict=True)), place, commit_id)
    return done


def _task(
    table: LakeTable, group: Rewrite, place: WritePlace, commit_id: str, sort_by: Sequence[str]
) -> RewriteTask:
    settings = table.settings
    names = {place.source_of(name): name for name in place.schema.names}
    key = names["key"] if settings.mode == "upsert" else None
    order = (key,) if key is not None else tuple(sort_by)
    where = RowsPlace(
        place=place,
        terms=table.terms,
        part=(),
        name=f"{settings.name}-compacted-{commit_id}",
        compression=settings.compression,
        file_bytes=settings.file_bytes,
        key=key,
    )
    order = order or tuple(names[one] for one in _ORDER if one in names)
    return RewriteTask(group.files, table.reader(), where, order)


def rewrite(task: RewriteTask) -> list[WrittenFile]:
    """Runs in a task: one file, or one for each part of rows of an earlier partitioning."""
    rows = read_all(task.reader, list(task.files), task.where.place.schema)
    if task.order:
        rows = rows.sort_by([(name, "ascending") for name in task.order])
    parts: dict[Part, list[RecordBatch]] = {}
    for batch in rows.combine_chunks().to_batches():
        for part, some in divide(batch, task.where.terms):
            parts.setdefault(part, []).append(some)
    return [
        file
        for part, some in parts.items()
        for file in write_rows(pa.Table.from_batches(some), replace(task.where, part=part))
    ]


def _replace(
    table: LakeTable,
    made: dict[Rewrite, list[WrittenFile]],
    place: WritePlace,
    commit_id: str,
) -> int:
    """Replaces the files of groups that nobody else has changed; returns how many."""
    doubt: UnknownOutcomeError | None = None
    done = 0
    for attempt in range(LAKE_ATTEMPTS_MAX):
        state = table.load()
        files = table.files(state)
        present = {one.url: one for one in files}
        for group in list(made):
            if not all(_is_same(present.get(one.url), one) for one in group.files):
                written = [one.url for one in made.pop(group)]
                if doubt is None:
                    delete_files(place, written)
                else:
                    done += all(one in present for one in written)
        if not made:
            return done
        removed = [present[one.url] for group in made for one in group.files]
        commit = TableCommit(
            commit_id=commit_id,
            offsets=None,
            topic_id=state.topic_id,
            mode=state.mode,
            added=[one for some in made.values() for one in some],
            removed=removed,
            removed_deletes=needless_deletes(files, removed),
            is_replacement=True,
        )
        try:
            table.commit(state.version, commit)
        except ConflictError:
            continue
        except UnknownOutcomeError as error:
            doubt = error
            pause(attempt + 1)
            continue
        except StaleRoundError:
            if doubt is None:
                delete_files(place, [one.url for some in made.values() for one in some])
            return done
        return done + len(made)
    if doubt is not None:
        raise doubt
    raise LakeError("other writers commit too often for a compaction to succeed")


def _is_same(now: DataFileInfo | None, planned: DataFileInfo) -> bool:
    """Whether a file has the rows that were rewritten: a new delete takes some of them away."""
    if now is None:
        return False
    return {one.file_path for one in now.deletes} == {one.file_path for one in planned.deletes}
