"""Care for tables: small files made large, old versions forgotten, files of nobody deleted.

Each of the three first makes a plan, which can be shown, and then carries it out:

*compaction*
    Files of one part that are smaller than half of the wanted size are written together, in the
    order of offsets, and replaced in one commit. It repeats the offsets and the id of the newest
    commit, so that committers go on as if nothing had happened. If somebody commits meanwhile, it
    looks whether its files are still there and tries again.
*expiry*
    Versions that are older than wanted, except the newest ones and the one that carries the
    offsets. It deletes no data files: these become orphans.
*orphans*
    Files in the folders of the table that no version names and that are older than a day: of
    rounds that failed, of compactions, of expired versions. Younger ones may belong to a commit
    that is on its way.
"""

from __future__ import annotations

import os
import pickle
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as typed_parquet

from kaa.limits import LAKE_ATTEMPTS_MAX, LAKE_ORPHAN_AGE_SECONDS, LAKE_SMALL_FILE_SHARE
from kaa.spark.formats.conform import conform
from kaa.spark.formats.untyped import pa
from kaa.spark.lake.folder import DATA, DEAD_LETTERS, FolderLake
from kaa.spark.lake.iceberg import IcebergLake
from kaa.spark.lake.partitioning import folder_of
from kaa.spark.lake.store import path_of
from kaa.spark.lake.table import ConflictError, LakeError, TableCommit, WrittenFile
from kaa.spark.lake.writing import delete_files

if TYPE_CHECKING:
    from kaa.spark.formats.untyped import Schema
    from kaa.spark.lake.partitioning import Part
    from kaa.spark.lake.settings import LakeSettings
    from kaa.spark.lake.table import DataFileInfo, LakeTable, WritePlace

pq: Any = typed_parquet


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files of one part that become one."""

    part: Part
    files: tuple[DataFileInfo, ...]

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.files)


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file that no version names."""

    url: str
    size_bytes: int
    age_seconds: float


# --- compaction


def plan_compaction(table: LakeTable, settings: LakeSettings) -> list[Rewrite]:
    """What would be written together."""
    small: dict[Part, list[DataFileInfo]] = {}
    for file in table.files():
        if file.size_bytes < settings.file_bytes * LAKE_SMALL_FILE_SHARE:
            small.setdefault(file.part, []).append(file)
    plan = []
    for part, files in small.items():
        groups: list[list[DataFileInfo]] = [[]]
        for file in sorted(files, key=lambda one: one.url):
            size = sum(one.size_bytes for one in groups[-1])
            if size + file.size_bytes > settings.file_bytes:
                groups.append([])
            groups[-1].append(file)
        plan += [Rewrite(part, tuple(group)) for group in groups if len(group) > 1]
    return plan


def compact(table: LakeTable, settings: LakeSettings, plan: list[Rewrite]) -> int:
    """Carries the plan out, one commit for each file that it makes; returns their number."""
    done = 0
    for rewrite in plan:
        state = table.load()
        place = table.prepare(table.schema())
        made = _rewrite(rewrite, settings, place, state.commit_id)
        if _replace(table, rewrite, made):
            done += 1
        else:
            delete_files(place, [made.url])
    return done


def _replace(table: LakeTable, rewrite: Rewrite, made: WrittenFile) -> bool:
    """Replaces the files, unless somebody else has replaced one of them."""
    for _ in range(LAKE_ATTEMPTS_MAX):
        state = table.load()
        present = {one.url: one for one in table.files()}
        if not all(one.url in present for one in rewrite.files):
            return False
        commit = TableCommit(
            commit_id=state.commit_id,
            offsets=state.offsets,
            topic_id=state.topic_id,
            mode=state.mode,
            added=[made],
            removed=[present[one.url] for one in rewrite.files],
        )
        try:
            table.commit(state.version, commit)
        except ConflictError:
            continue
        return True
    raise LakeError("others commit so often that no compaction comes through")


def _rewrite(
    rewrite: Rewrite, settings: LakeSettings, place: WritePlace, commit_id: str
) -> WrittenFile:
    filesystem = place.store.filesystem()
    tables = [_read(one.url, filesystem, place.schema) for one in rewrite.files]
    rows = pa.concat_tables(tables)
    keys = [name for name in ("partition", "offset") if name in rows.schema.names]
    if keys:
        rows = rows.sort_by([(name, "ascending") for name in keys])
    folder = folder_of(settings.terms, rewrite.part)
    name = f"{settings.name}-compacted-{commit_id}-{os.urandom(4).hex()}.parquet"
    url = "/".join(one for one in (place.data_url, folder, name) if one)
    path = path_of(url)
    if place.store.is_local:
        filesystem.create_dir(path.rpartition("/")[0], recursive=True)
    metadata: list[Any] = []
    with pq.ParquetWriter(
        path,
        place.schema,
        filesystem=filesystem,
        compression=settings.compression,
        metadata_collector=metadata,
    ) as writer:
        writer.write_table(rows)
    size = filesystem.get_file_info(path).size
    footer = pickle.dumps(metadata[0])
    return WrittenFile(url, rows.num_rows, size, rewrite.part, False, -1, -1, -1, footer)


def _read(url: str, filesystem: Any, schema: Schema) -> Any:
    found = pq.read_table(path_of(url), filesystem=filesystem, partitioning=None)
    columns = [
        conform(found.column(one.name).combine_chunks(), one.type)
        if one.name in found.schema.names and found.num_rows
        else pa.nulls(found.num_rows, one.type)
        for one in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


# --- expiry


def plan_expiry(table: LakeTable, *, keep: int, older_than_seconds: float) -> list[str]:
    """The versions that would be forgotten, oldest first."""
    if keep < 1:
        raise LakeError("at least one version must be kept")
    limit_ms = (time.time() - older_than_seconds) * 1000
    states = table.history()
    old = [one for one in states[:-keep] if (one.committed_ms or 0) < limit_ms]
    return [one.version for one in old]


def expire(table: LakeTable, versions: list[str]) -> int:
    """Forgets the versions; returns how many."""
    if not versions:
        return 0
    if isinstance(table, IcebergLake):
        ids = [int(one) for one in versions]
        table.data.handle.maintenance.expire_snapshots().by_ids(ids).commit()
        return len(ids)
    assert isinstance(table, FolderLake)
    # A version needs the manifests down to the last full one before it.
    return table.store.delete(table.forget_before(int(versions[-1]) + 1))


# --- orphans


def plan_orphans(
    table: LakeTable, *, older_than_seconds: float = LAKE_ORPHAN_AGE_SECONDS
) -> list[Orphan]:
    """The files that would be deleted."""
    now = time.time()
    found = []
    for store, folders, named in _referenced(table):
        for folder in folders:
            for one in store.list(folder):
                age = now - one.modified_seconds
                if store.join(one.path) not in named and age >= older_than_seconds:
                    found.append(Orphan(store.join(one.path), one.size_bytes, age))
    return found


def remove_orphans(table: LakeTable, orphans: list[Orphan]) -> int:
    """Deletes the files, unless a version names them by now; returns how many."""
    removed = 0
    for store, _, named in _referenced(table):
        base = store.url.rstrip("/") + "/"
        paths = [one.url for one in orphans if one.url.startswith(base) and one.url not in named]
        removed += store.delete([store.relative(url) for url in paths])
    return removed


def _referenced(table: LakeTable) -> list[tuple[Any, tuple[str, ...], set[str]]]:
    """Places of the table, the folders of its files there, and every file that a version names."""
    if isinstance(table, IcebergLake):
        return [
            (one.store, ("data", "metadata"), one.referenced()) for one in (table.data, table.dead)
        ]
    assert isinstance(table, FolderLake)
    history = table.history()
    named = table.files_since(int(history[0].version)) if history else set()
    return [(table.store, (DATA, DEAD_LETTERS), {table.store.join(one) for one in named})]
