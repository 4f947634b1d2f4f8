"""Care for tables: old versions forgotten, files of nobody deleted, manifests written together.

Each first makes a plan, which can be shown, and then carries it out (`compaction` is the fourth):

*expiry*
    Versions that are older than wanted, except the newest ones and those that a branch or a tag
    names. It deletes no data files: these become orphans.
*orphans*
    Files in the folders of the table that its metadata does not name, as data, deletes, statistics
    or metadata, and that are older than a day: of rounds that failed, of compactions, of expired
    versions. Younger ones may belong to a commit that is on its way. Tasks list the folders and
    read the manifests; what both name is left out where the tasks run, so that the driver has the
    orphans alone.
*manifests*
    A commit adds one manifest. Many small ones are written together, up to eight megabytes each,
    so that a reader opens few when it plans. One such manifest is in memory at a time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kaa.limits import LAKE_ATTEMPTS_MAX, LAKE_ORPHAN_AGE_SECONDS
from kaa.spark.lake.folder import DATA, DEAD_LETTERS, FolderLake
from kaa.spark.lake.iceberg.catalog import IcebergLake
from kaa.spark.lake.running import LocalRunner
from kaa.spark.lake.store import normal_url
from kaa.spark.lake.table import ConflictError, LakeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.spark.lake.running import Runner
    from kaa.spark.lake.store import Store
    from kaa.spark.lake.table import LakeTable


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file that no version names."""

    url: str
    size_bytes: int
    age_seconds: float


# --- expiry


def plan_expiry(table: LakeTable, *, keep: int, older_than_seconds: float) -> list[str]:
    """The versions that would be forgotten, oldest first."""
    if keep < 1:
        raise LakeError("at least one version must be kept")
    limit_ms = (time.time() - older_than_seconds) * 1000
    states = table.history()
    old = [one for one in states[:-keep] if (one.committed_ms or 0) < limit_ms and not one.is_named]
    return [one.version for one in old]


def expire(table: LakeTable, versions: list[str]) -> int:
    """Forgets the versions; returns how many."""
    if not versions:
        return 0
    if isinstance(table, IcebergLake):
        return table.data.forget([int(one) for one in versions])
    assert isinstance(table, FolderLake)
    # A version needs the manifests down to the last full one before it. The newest goes first, so
    # that the others can be read, should this be broken off.
    return table.store.delete(reversed(table.forget_before(int(versions[-1]) + 1)))


# --- orphans


@dataclass(frozen=True, slots=True)
class Listing:
    """A folder to list; pickled to an executor."""

    store: Store = field(repr=False)
    folder: str
    older_than_seconds: float


@dataclass(frozen=True, slots=True)
class Naming:
    """Names of files, or a manifest that has some; pickled to an executor."""

    names: tuple[str, ...] = ()
    manifest: Any = field(default=None, repr=False)
    io: Any = field(default=None, repr=False)


def listed(task: Listing) -> Iterator[tuple[str, Orphan]]:
    """Runs in a task: every file of a folder that is old enough."""
    now = time.time()
    for one in task.store.list(task.folder):
        age = now - one.modified_seconds
        if age >= task.older_than_seconds:
            url = task.store.join(one.path)
            yield url, Orphan(url, one.size_bytes, age)


def named(task: Naming) -> Iterator[tuple[str, None]]:
    """Runs in a task: every file that metadata names."""
    for name in task.names:
        yield normal_url(name), None
    if task.manifest is not None:
        for entry in task.manifest.fetch_manifest_entry(task.io, discard_deleted=True):
            yield normal_url(entry.data_file.file_path), None


def plan_orphans(
    table: LakeTable,
    *,
    older_than_seconds: float = LAKE_ORPHAN_AGE_SECONDS,
    runner: Runner | None = None,
) -> list[Orphan]:
    """The files that would be deleted."""
    listings = [
        Listing(store, folder, older_than_seconds)
        for store, folders in _folders(table)
        for folder in folders
    ]
    found = (runner or LocalRunner()).difference(listed, listings, named, _namings(table))
    return sorted(found, key=lambda one: one.url)


def remove_orphans(table: LakeTable, orphans: list[Orphan], runner: Runner | None = None) -> int:
    """Deletes the files, unless a version names them by now; returns how many."""
    still = (runner or LocalRunner()).difference(_as_listed, orphans, named, _namings(table))
    removed = 0
    for store, _ in _folders(table):
        base = store.url.rstrip("/") + "/"
        paths = [store.relative(one.url) for one in still if one.url.startswith(base)]
        removed += store.delete(paths)
    return removed


def _as_listed(orphan: Orphan) -> Iterator[tuple[str, Orphan]]:
    yield orphan.url, orphan


def _folders(table: LakeTable) -> list[tuple[Store, tuple[str, ...]]]:
    """Places of the table, and the folders of its files there."""
    if isinstance(table, IcebergLake):
        return [(one.store, ("data", "metadata")) for one in table.tables]
    assert isinstance(table, FolderLake)
    return [(table.store, (DATA, DEAD_LETTERS))]


def _namings(table: LakeTable) -> list[Naming]:
    if isinstance(table, IcebergLake):
        tasks = []
        for one in table.tables:
            found = one.named_by_metadata()
            tasks.append(Naming(names=tuple(found.paths)))
            tasks += [Naming(manifest=manifest, io=found.io) for manifest in found.manifests]
        return tasks
    assert isinstance(table, FolderLake)
    history = table.history()
    names = table.files_since(int(history[0].version)) if history else set()
    return [Naming(names=tuple(table.store.join(one) for one in names))]


# --- manifests


def count_files(table: LakeTable) -> tuple[int, int]:
    """How many data files and files with deletes the newest version has, by its summary."""
    if isinstance(table, IcebergLake):
        return table.data.count_files()
    return len(table.files()), 0


def count_manifests(table: LakeTable) -> int:
    """How many the newest version has; folders have no such thing."""
    return table.data.count_manifests() if isinstance(table, IcebergLake) else 0


def rewrite_manifests(table: LakeTable) -> bool:
    """Writes small manifests together; whether there was something to do."""
    if not isinstance(table, IcebergLake):
        return False
    for _ in range(LAKE_ATTEMPTS_MAX):
        try:
            return table.rewrite_manifests()
        except ConflictError:
            continue
    raise LakeError("other writers commit so often that the manifests cannot be merged")
