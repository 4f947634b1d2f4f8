"""One row per key: changed keys are looked up, their old rows deleted by position.

An upsert table is divided by `bucket(n, key)`. A round writes its records as an append table
would, into files of their own (*the news*), divided by the same bucket. So the news of a bucket
concern files of that bucket alone, and joining both needs no shuffle: it is one task per bucket
that the round touches, which

1. takes of each key in the news the last record;
2. looks these keys up in the files of the bucket, which gives their rows as (file, position);
3. compares the two: a row that lost is one deleted position, a record that won and is not a
   tombstone (a null value) is one new row;
4. writes one file with the new rows, sorted by key, and one with the deleted positions.

All of a round becomes one snapshot, so a reader sees it as a whole. What it costs follows the keys
that changed, not the size of the table. A bucket is kept from falling to pieces in passing:

- when more than a quarter of its rows is deleted, its files with deleted rows are rewritten;
- when it has more than eight files, the small ones are written together, up to one that is more
  than four times as large as all before it. So a row is written again about as often as the bucket
  grew by that factor;
- when it has more than eight files with deleted positions, they become one.

A folder of Parquet files has no deleted positions: there the touched buckets are rewritten.

A record without a key is a dead letter: keys are what identifies rows. All records of a key
are in one partition, where offsets say which is the last. A key can be in two partitions if the
topic got more of them, or if producers divide it in different ways: then the record with the later
timestamp wins.

A task has in memory the news of its bucket, and what it rewrites: choose buckets so that one has
at most some hundred megabytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kaa.limits import (
    LAKE_BUCKET_DELETES_MAX,
    LAKE_BUCKET_FILES_MAX,
    LAKE_BUCKET_GROWTH_FACTOR,
    LAKE_DELETED_SHARE_MAX,
)
from kaa.spark.formats.untyped import pa, pc
from kaa.spark.lake.files import POSITION, FolderReader, IcebergReader, read_all
from kaa.spark.lake.iceberg.deletes import write_deletes
from kaa.spark.lake.table import DataFileInfo, LakeError, needless_deletes
from kaa.spark.lake.writing import TOMBSTONE, RowsPlace, delete_files, write_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.spark.formats.untyped import Array, Schema, Table
    from kaa.spark.lake.partitioning import Part
    from kaa.spark.lake.running import Runner
    from kaa.spark.lake.table import (
        FileReader,
        LakeTable,
        TableState,
        WritePlace,
        WrittenDeletes,
        WrittenFile,
    )

_ROW: Final = "kaa_row"
_FILE: Final = "kaa_file"
_ORDER: Final = ("key", "partition", "offset", "timestamp")


@dataclass(frozen=True, slots=True)
class Merge:
    """What a round changes in the table."""

    added: list[WrittenFile]
    deletes: list[WrittenDeletes]
    removed: list[DataFileInfo]
    removed_deletes: list[str]
    # What was read of the files of the table.
    read_bytes: int

    @property
    def urls(self) -> list[str]:
        """The files that belong to this merge alone."""
        rows = [one.url for one in self.added if not one.is_dead_letters]
        return rows + [one.url for one in self.deletes]


@dataclass(frozen=True, slots=True)
class BucketTask:
    """One bucket of a round; pickled to an executor."""

    news: tuple[DataFileInfo, ...]
    old: tuple[DataFileInfo, ...]
    # Those of the old ones that are rewritten.
    rewritten: frozenset[str]
    # Files with deleted positions that become one with those of this round.
    folded: frozenset[str]
    reader: FileReader = field(repr=False)
    where: RowsPlace
    commit_id: str


@dataclass(frozen=True, slots=True)
class BucketMerge:
    """What became of it."""

    added: list[WrittenFile]
    deletes: WrittenDeletes | None
    read_bytes: int


def merge(
    table: LakeTable,
    runner: Runner,
    state: TableState,
    place: WritePlace,
    written: Sequence[WrittenFile],
    commit_id: str,
) -> Merge:
    """Merges news into the table as it is in a state."""
    files = table.files(state)
    for known in files:
        if not known.is_current:
            raise LakeError(
                f"{table.settings.table} has files of another partitioning, so that a key may be "
                "in two parts; let the engine that changed it rewrite the table"
            )
    tasks = _tasks(table, files, place, written, commit_id)
    done = runner.map(merge_bucket, tasks)
    removed = [file for one in tasks for file in one.old if file.url in one.rewritten]
    return Merge(
        [one for one in written if one.is_dead_letters]
        + [file for one in done for file in one.added],
        [one.deletes for one in done if one.deletes is not None],
        removed,
        sorted(
            {*needless_deletes(files, removed), *(path for one in tasks for path in one.folded)}
        ),
        sum(one.read_bytes for one in done),
    )


def _tasks(
    table: LakeTable,
    files: Sequence[DataFileInfo],
    place: WritePlace,
    written: Sequence[WrittenFile],
    commit_id: str,
) -> list[BucketTask]:
    news: dict[Part, list[DataFileInfo]] = {}
    for file in written:
        if not file.is_dead_letters:
            info = DataFileInfo(file.url, file.rows, file.size_bytes, file.part)
            news.setdefault(file.part, []).append(info)
    existing: dict[Part, list[DataFileInfo]] = {}
    for known in files:
        existing.setdefault(known.part, []).append(known)
    reader, settings, shared = table.reader(), table.settings, _shared_deletes(files)
    key = next(name for name in place.schema.names if place.source_of(name) == "key")
    tasks = []
    for part, fresh in news.items():
        old = tuple(existing.get(part, ()))
        is_keyed = isinstance(reader, IcebergReader)
        rewritten = worth_rewriting(old) if is_keyed else old
        where = RowsPlace(
            place=place,
            terms=table.terms,
            part=part,
            name=f"{settings.topic}-upsert-{commit_id}",
            compression=settings.compression,
            file_bytes=settings.file_bytes,
            key=key,
        )
        gone = frozenset(one.url for one in rewritten)
        folded = worth_folding([one for one in old if one.url not in gone], shared)
        tasks.append(BucketTask(tuple(fresh), old, gone, folded, reader, where, commit_id))
    return tasks


def worth_rewriting(files: Sequence[DataFileInfo]) -> list[DataFileInfo]:
    """Which files of a bucket a round rewrites, by what its manifests say."""
    chosen = []
    deletes = {one.file_path: one.record_count for file in files for one in file.deletes}
    if sum(deletes.values()) > LAKE_DELETED_SHARE_MAX * sum(one.rows for one in files):
        chosen = [one for one in files if one.deletes]
    if len(files) > LAKE_BUCKET_FILES_MAX:
        size = 0
        for one in sorted(files, key=lambda file: file.size_bytes):
            if size and one.size_bytes > LAKE_BUCKET_GROWTH_FACTOR * size:
                break
            size += one.size_bytes
            if one not in chosen:
                chosen.append(one)
    return chosen


def worth_folding(kept: Sequence[DataFileInfo], shared: frozenset[str]) -> frozenset[str]:
    """Which files with deleted positions of a bucket a round writes together: all or none.

    `kept` are the data files of the bucket that stay. Those that concern several buckets, as
    another engine may write them, are left alone.
    """
    found = {delete.file_path for one in kept for delete in one.deletes} - shared
    return frozenset(found if len(found) > LAKE_BUCKET_DELETES_MAX else ())


def _shared_deletes(files: Sequence[DataFileInfo]) -> frozenset[str]:
    """Files with deleted positions that concern data files of several parts."""
    parts: dict[str, Part] = {}
    found = set()
    for file in files:
        for one in file.deletes:
            if parts.setdefault(one.file_path, file.part) != file.part:
                found.add(one.file_path)
    return frozenset(found)


def merge_bucket(task: BucketTask) -> BucketMerge:
    """Runs in a task."""
    place = task.where.place
    reader = FolderReader(place.store)
    news = _by_source(read_all(reader, list(task.news), news_schema(place.schema)), place)
    news = last_per_key(news)
    kept = [one for one in task.old if one.url not in task.rewritten]
    found, size = _look_up(task, kept, news)
    is_won, positions = _compare(found, news)
    winners = news.filter(is_won)
    rewritten = [one for one in task.old if one.url in task.rewritten]
    size += sum(one.size_bytes for one in rewritten)
    old = _by_source(read_all(task.reader, rewritten, place.schema), place)
    rows = latest_per_key(old, winners) if rewritten else _without_tombstones(winners)
    rows = rows.sort_by([("key", "ascending")])
    added = write_rows(_by_table(rows, place), task.where)
    for number, at in _folded(task, kept).items():
        size += sum(one.file_size_in_bytes for one in kept[number].deletes)
        now = positions.get(number, pa.array([], pa.int64()))
        positions[number] = pc.unique(pa.concat_arrays([at, now]))
    deletes = None
    if positions:
        paths = {kept[number].handle.file_path: at for number, at in positions.items()}
        deletes = write_deletes(paths, task.where.part, task.where.terms, place, task.commit_id)
    return BucketMerge(added, deletes, size)


def _folded(task: BucketTask, kept: Sequence[DataFileInfo]) -> dict[int, Array]:
    """The positions in each file that were deleted before, as far as they are written again."""
    if not task.folded:
        return {}
    assert isinstance(task.reader, IcebergReader), "folders have no deleted positions"
    found = {}
    for number, file in enumerate(kept):
        mine = [one for one in file.deletes if one.file_path in task.folded]
        if mine:
            found[number] = task.reader.deleted(file, mine)
    return found


def _look_up(task: BucketTask, files: list[DataFileInfo], news: Table) -> tuple[Table, int]:
    """The rows that the keys of the news have in some files, and the bytes read for that."""
    place = task.where.place
    names = {place.source_of(one): one for one in place.schema.names}
    schema = pa.schema([place.schema.field(names[one]).with_name(names[one]) for one in _ORDER])
    plain = pa.schema([pa.field(one, news.schema.field(one).type) for one in _ORDER])
    numbered = plain.append(pa.field(POSITION, pa.int64())).append(pa.field(_FILE, pa.int64()))
    tables, size = [numbered.empty_table()], 0
    keys = sorted(news.column("key").to_pylist())
    for number, file in enumerate(files):
        assert isinstance(task.reader, IcebergReader), "folders are rewritten"
        found = task.reader.find(file, schema, names["key"], keys)
        size += found.read_bytes
        if found.rows.num_rows:
            here = pa.array([number], pa.int64()).take(pa.array([0] * found.rows.num_rows))
            columns = [*found.rows.columns, here]
            cast = [one.cast(two.type) for one, two in zip(columns, numbered, strict=True)]
            tables.append(pa.Table.from_arrays(cast, schema=numbered))
    return pa.concat_tables(tables), size


def _compare(found: Table, news: Table) -> tuple[Array, dict[int, Array]]:
    """Which of the news win, and the positions in each file that are deleted for it."""
    fresh = news.select(list(_ORDER))
    for name in (POSITION, _FILE):
        fresh = fresh.append_column(name, pa.array([-1], pa.int64()).take(_zeros(news.num_rows)))
    both = pa.concat_tables([found.cast(fresh.schema), fresh])
    chosen = _last_rows(both)
    is_chosen = pc.is_in(pa.array(range(both.num_rows), pa.int64()), chosen)
    lost = found.filter(pc.invert(is_chosen.slice(0, found.num_rows)))
    positions = {}
    for number in pc.unique(lost.column(_FILE)).to_pylist():
        mine = lost.filter(pc.equal(lost.column(_FILE), pa.scalar(number)))
        positions[number] = mine.column(POSITION).combine_chunks()
    return is_chosen.slice(found.num_rows), positions


def _zeros(count: int) -> Array:
    return pa.array([0] * count, pa.int32())


def news_schema(schema: Schema) -> Schema:
    """The columns of news: those of the table, and whether the record deletes its key."""
    return schema.append(pa.field(TOMBSTONE, pa.bool_()))


def latest_per_key(old: Table, news: Table) -> Table:
    """The last row of each key; none where that is a tombstone."""
    marked = old.append_column(TOMBSTONE, pa.nulls(old.num_rows, pa.bool_()).fill_null(False))
    rows = pa.concat_tables([marked, news.select(marked.schema.names).cast(marked.schema)])
    return _without_tombstones(last_per_key(rows))


def last_per_key(rows: Table) -> Table:
    """The last row of each key, tombstones too."""
    return rows.take(_last_rows(rows))


def _without_tombstones(rows: Table) -> Table:
    return rows.filter(pc.invert(rows.column(TOMBSTONE))).drop_columns([TOMBSTONE])


def _last_rows(rows: Table) -> Array:
    """The numbers of the last rows, in order."""
    numbers = pa.array(range(rows.num_rows), pa.int64())
    by_key = rows.select(list(_ORDER)).append_column(_ROW, numbers)
    # Within a partition offsets decide; only a key that changed its partition needs the time.
    newest = by_key.sort_by([("offset", "ascending")])
    last = newest.group_by(["key", "partition"], use_threads=False).aggregate(
        [("offset", "last"), ("timestamp", "last"), (_ROW, "last")]
    )
    last = last.rename_columns([*("key", "partition", "offset", "timestamp"), _ROW])
    chosen = last.column(_ROW)
    if pc.count_distinct(last.column("key")).as_py() < last.num_rows:
        last = last.sort_by([("timestamp", "ascending"), ("offset", "ascending")])
        last = last.group_by(["key"], use_threads=False).aggregate([(_ROW, "last")])
        chosen = last.column(f"{_ROW}_last")
    return chosen.combine_chunks().sort()


def _by_source(rows: Table, place: WritePlace) -> Table:
    """The columns by the names that records know."""
    return rows.rename_columns([place.source_of(one) for one in rows.schema.names])


def _by_table(rows: Table, place: WritePlace) -> Table:
    """The columns by the names that the table has, in its types."""
    arrays: list[Any] = [
        rows.column(place.source_of(one.name)).cast(one.type) for one in place.schema
    ]
    return pa.Table.from_arrays(arrays, schema=place.schema)


def drop_news(place: WritePlace, written: Sequence[WrittenFile]) -> None:
    """Deletes the files of news after their commit; they were never part of the table."""
    delete_files(place, [one.url for one in written if not one.is_dead_letters])
