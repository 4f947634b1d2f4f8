"""What a task of a round does: ranges of offsets become Parquet files, which they share.

Batches come from the broker as Arrow columns, are decoded, divided by part and written as they are;
no Python object is made per record. Rows wait in memory until a row group is worth writing. What
cannot be decoded, or has no place in the table, goes to files of dead letters:

| column | of a dead letter |
|---|---|
| topic … | all columns of the record, as raw bytes |
| kaa_error | why |

Files are named by topic, partition, offsets and the commit they are written for, with a mark of the
attempt: a task that Spark repeats writes other files, and only those that it reports are committed.
A task that fails deletes what it wrote.
"""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as typed_parquet

from kaa.limits import (
    LAKE_KEYED_ROW_GROUP_ROWS,
    LAKE_OPEN_FILES_MAX,
    LAKE_ROW_GROUP_BYTES,
    LAKE_ROW_GROUP_ROWS_MAX,
)
from kaa.spark.formats import ERROR_COLUMN
from kaa.spark.formats.inference import joined
from kaa.spark.formats.untyped import pa, pc
from kaa.spark.lake.files import shaped
from kaa.spark.lake.partitioning import divide, folder_of
from kaa.spark.lake.store import path_of
from kaa.spark.lake.table import WrittenFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.spark.formats import DecodePlan
    from kaa.spark.formats.options import Side
    from kaa.spark.formats.untyped import RecordBatch, Schema, StructType, Table
    from kaa.spark.lake.partitioning import Part, Term
    from kaa.spark.lake.table import WritePlace
    from kaa.spark.options import SourceOptions
    from kaa.spark.range_reader import Task

pq: Any = typed_parquet

# Rows in memory are larger than in files, by about so much.
_IN_MEMORY_SHARE = 2

TOMBSTONE = "kaa_tombstone"
"""The column of news that tells records that delete their key."""


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Some ranges of a round; pickled to an executor."""

    # None where the rows do not come from a topic.
    source: SourceOptions | None = field(repr=False)
    tasks: tuple[Task, ...]
    formats: DecodePlan | None = field(repr=False)
    terms: tuple[Term, ...]
    place: WritePlace = field(repr=False)
    commit_id: str
    file_bytes: int
    compression: str
    # Records of an upsert table need a key, and are news until they are merged.
    is_upsert: bool = False
    # Whether fields without a column are looked for; columns are inferred then.
    looks_for_more: bool = False


class Grown(NamedTuple):
    """Nothing was written, since the ranges have fields that there are no columns for."""

    seen: dict[Side, StructType]


def write(task: WriteTask) -> list[WrittenFile] | Grown:
    """Writes the files of some ranges."""
    from kaa.spark.range_reader import RangeReader

    source = task.source
    assert source is not None, "a task that reads a topic"
    return _write(task, ((one, RangeReader(source, one, source.columns).batches())
                         for one in task.tasks))  # fmt: skip


def write_batches(task: WriteTask, batches: Iterable[RecordBatch]) -> list[WrittenFile]:
    """Writes the files of rows that were read."""
    files = _write(task, [(task.tasks[0], batches)])
    assert not isinstance(files, Grown), "rows of a query have the columns of their table"
    return files


def _write(
    task: WriteTask, ranges: Iterable[tuple[Task, Iterable[RecordBatch]]]
) -> list[WrittenFile] | Grown:
    files = _Files(task)
    seen: dict[Side, StructType] = {}
    try:
        for one, batches in ranges:
            for batch in batches:
                decoded = (
                    batch if task.formats is None else _decode(task.formats, task, batch, seen)
                )
                if not seen:
                    _add(files, task, one.range.partition.partition, batch, decoded)
        if not seen:
            return files.finish()
        files.abandon()
        return Grown(seen)
    except BaseException:
        files.abandon()
        raise


def _decode(
    formats: DecodePlan, task: WriteTask, batch: RecordBatch, seen: dict[Side, StructType]
) -> RecordBatch:
    """The batch with its decoded columns; fields that there are no columns for are noted."""
    if not task.looks_for_more:
        return formats.decode(batch)
    decoded, more = formats.decode_seeing(batch)
    for side, one in more.items():
        seen[side] = joined(seen.get(side, pa.null()), one)
    return decoded


def _add(
    files: _Files, task: WriteTask, partition: int, batch: RecordBatch, decoded: RecordBatch
) -> None:
    good, bad = _judge(task, batch, decoded)
    if bad is not None:
        dead_from = task.place.dead_from.get(partition, 0)
        late = bad.filter(pc.greater_equal(bad.column("offset"), pa.scalar(dead_from)))
        files.add_dead(partition, late)
    if good.num_rows:
        rows = shaped(good, task.place.schema, task.place.sources)
        if task.is_upsert:
            rows = rows.append_column(TOMBSTONE, good.column("value").is_null())
        for part, some in divide(rows, task.terms):
            files.add(part, some)


def _judge(
    task: WriteTask, batch: RecordBatch, decoded: RecordBatch
) -> tuple[RecordBatch, RecordBatch | None]:
    """Rows for the table, and rows for the dead letters."""
    reasons = None
    if task.formats is not None:
        reasons = decoded.column(ERROR_COLUMN)
    if task.is_upsert:
        keyless = pc.if_else(
            batch.column("key").is_null(),
            pa.scalar("the record has no key"),
            pa.scalar(None, pa.string()),
        )
        reasons = keyless if reasons is None else pc.coalesce(reasons, keyless)
    if reasons is None or reasons.null_count == len(reasons):
        return decoded, None
    is_bad = reasons.is_valid()
    letters = batch.append_column(ERROR_COLUMN, reasons).filter(is_bad)
    return decoded.filter(pc.invert(is_bad)), letters


def open_parquet(
    path: str,
    schema: Schema,
    filesystem: Any,
    compression: str,
    footers: list[Any],
    key: str | None = None,
    rows: int = LAKE_KEYED_ROW_GROUP_ROWS,
) -> Any:
    """A file that rows are written to. One that is sorted by a key, of so many rows at most, gets
    what finds keys in it: an index of its pages, and a Bloom filter for each row group.
    """
    plain = [
        one.name
        for one in schema
        if not (pa.types.is_binary(one.type) or pa.types.is_nested(one.type))
    ]
    keyed: dict[str, Any] = {}
    if key is not None:
        distinct = max(1, min(rows, LAKE_KEYED_ROW_GROUP_ROWS))
        keyed = {
            "write_page_index": True,
            "sorting_columns": [pq.SortingColumn(schema.names.index(key))],
            "bloom_filter_options": {key: {"ndv": distinct, "fpp": 0.01}},
        }
    return pq.ParquetWriter(
        path,
        schema,
        filesystem=filesystem,
        compression=compression,
        use_dictionary=plain,
        metadata_collector=footers,
        **keyed,
    )


@dataclass(frozen=True, slots=True)
class RowsPlace:
    """Where rows of one part are written that are at hand: by merging and by compaction."""

    place: WritePlace = field(repr=False)
    terms: tuple[Term, ...]
    part: Part
    # What the names of files begin with.
    name: str
    compression: str
    file_bytes: int
    # The column that the rows are sorted by, of tables with one row per key.
    key: str | None = None


def write_rows(rows: Table, where: RowsPlace) -> list[WrittenFile]:
    """Writes rows in files of about the wanted size."""
    if not rows.num_rows:
        return []
    count = max(1, -(-rows.nbytes // max(1, where.file_bytes * _IN_MEMORY_SHARE)))
    step = -(-rows.num_rows // count)
    return [
        _write_file(rows.slice(at, step), where) for at in range(0, rows.num_rows, step)
    ]  # fmt: skip


def _write_file(rows: Table, where: RowsPlace) -> WrittenFile:
    place = where.place
    name = f"{where.name}-{os.urandom(4).hex()}.parquet"
    folder = folder_of(where.terms, where.part)
    url = "/".join(one for one in (place.data_url, folder, name) if one)
    path, filesystem = path_of(url), place.store.filesystem()
    if place.store.is_local:
        filesystem.create_dir(path.rpartition("/")[0], recursive=True)
    footers: list[Any] = []
    group_rows = LAKE_ROW_GROUP_ROWS_MAX if where.key is None else LAKE_KEYED_ROW_GROUP_ROWS
    with open_parquet(
        path, place.schema, filesystem, where.compression, footers, where.key, rows.num_rows
    ) as writer:
        writer.write_table(rows.cast(place.schema), row_group_size=group_rows)
    size = filesystem.get_file_info(path).size
    footer = pickle.dumps(footers[0])
    return WrittenFile(
        url, rows.num_rows, size, where.part, False, -1, -1, -1, place.spec, footer
    )  # fmt: skip


class _File:
    """One Parquet file that is being written."""

    def __init__(self, url: str, schema: Schema, task: WriteTask, filesystem: Any) -> None:
        self.url = url
        path = path_of(url)
        if task.place.store.is_local:
            filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        self.metadata: list[Any] = []
        self.writer = open_parquet(path, schema, filesystem, task.compression, self.metadata)
        self.waiting: list[Any] = []
        self.waiting_rows = 0
        self.waiting_bytes = 0
        self.written_bytes = 0
        self.rows = 0
        self.first: int | None = None
        self.last = -1

    def add(self, batch: RecordBatch) -> None:
        self.waiting.append(batch)
        self.waiting_rows += batch.num_rows
        self.waiting_bytes += batch.nbytes
        if "offset" in batch.schema.names and batch.num_rows:
            offsets = batch.column("offset")
            if self.first is None:
                self.first = offsets[0].as_py()
            self.last = offsets[-1].as_py()

    def flush(self) -> None:
        if self.waiting:
            table = pa.Table.from_batches(self.waiting)
            self.writer.write_table(table, row_group_size=LAKE_ROW_GROUP_ROWS_MAX)
            self.rows += self.waiting_rows
            self.written_bytes += self.waiting_bytes
            self.waiting, self.waiting_rows, self.waiting_bytes = [], 0, 0


class _Files:
    """The open files of a task, one for each part; the least used are closed first.

    Dead letters of each partition have files of their own, since a committer compares the offsets
    of a partition with those that its dead letters have reached.
    """

    def __init__(self, task: WriteTask) -> None:
        self._task = task
        self._filesystem = task.place.store.filesystem()
        # By the partition of dead letters, or None, and by part.
        self._open: OrderedDict[tuple[int | None, Part], _File] = OrderedDict()
        self._done: list[WrittenFile] = []
        self._urls: list[str] = []
        self._mark = os.urandom(4).hex()

    def add(self, part: Part, batch: RecordBatch) -> None:
        self._add((None, part), batch)

    def add_dead(self, partition: int, batch: RecordBatch) -> None:
        if batch.num_rows:
            self._add((partition, ()), shaped(batch, self._task.place.dead_schema))

    def _add(self, key: tuple[int | None, Part], batch: RecordBatch) -> None:
        file = self._open.get(key)
        if file is None:
            if len(self._open) >= LAKE_OPEN_FILES_MAX:
                self._close(next(iter(self._open)))
            file = self._open[key] = self._new(key)
        self._open.move_to_end(key)
        file.add(batch)
        if sum(one.waiting_bytes for one in self._open.values()) >= LAKE_ROW_GROUP_BYTES:
            max(self._open.values(), key=lambda one: one.waiting_bytes).flush()
        if file.written_bytes + file.waiting_bytes >= self._task.file_bytes:
            self._close(key)

    def _new(self, key: tuple[int | None, Part]) -> _File:
        place, first = self._task.place, self._task.tasks[0].range
        is_dead = key[0] is not None
        base = place.dead_url if is_dead else place.data_url
        folder = "" if is_dead else folder_of(self._task.terms, key[1])
        name = (
            f"{first.partition.topic}-{first.partition.partition}-{first.start}-{first.end}"
            f"-{self._task.commit_id}-{self._mark}-{len(self._urls)}.parquet"
        )
        url = "/".join(one for one in (base, folder, name) if one)
        self._urls.append(url)
        schema = place.dead_schema if is_dead else place.schema
        if self._task.is_upsert and not is_dead:
            schema = schema.append(pa.field(TOMBSTONE, pa.bool_()))
        return _File(url, schema, self._task, self._filesystem)

    def _close(self, key: tuple[int | None, Part]) -> None:
        file = self._open.pop(key)
        file.flush()
        file.writer.close()
        size = self._filesystem.get_file_info(path_of(file.url)).size
        self._done.append(
            WrittenFile(
                url=file.url,
                rows=file.rows,
                size_bytes=size,
                part=key[1],
                is_dead_letters=key[0] is not None,
                partition=-1 if key[0] is None else key[0],
                first_offset=-1 if file.first is None else file.first,
                last_offset=file.last,
                spec=self._task.place.spec,
                footer=pickle.dumps(file.metadata[0]),
            )
        )

    def finish(self) -> list[WrittenFile]:
        for key in list(self._open):
            self._close(key)
        return self._done

    def abandon(self) -> None:
        """Deletes everything, as far as that can be done; maintenance gets the rest."""
        for file in self._open.values():
            try:
                file.writer.close()
            except (OSError, ValueError, pa.ArrowException):
                continue
        delete_files(self._task.place, self._urls)


def delete_files(place: WritePlace, urls: Iterable[str]) -> None:
    """Deletes files, as far as that can be done."""
    filesystem = place.store.filesystem()
    for url in urls:
        try:
            filesystem.delete_file(path_of(url))
        except (OSError, pa.ArrowException):
            continue
