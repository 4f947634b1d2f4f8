"""What a task of a round does: a range of offsets becomes Parquet files.

Batches come from the broker as Arrow columns, are decoded, divided by part and written as they are;
no Python object is made per record. Rows wait in memory until a row group is worth writing. What
cannot be decoded, or has no place in the table, goes to files of dead letters:

=========== =====================================================================
column      of a dead letter
=========== =====================================================================
topic …     all columns of the record, as raw bytes
kaa_error   why
=========== =====================================================================

Files are named by topic, partition, offsets and the commit they are written for, with a mark of the
attempt: a task that Spark repeats writes other files, and only those that it reports are committed.
A task that fails deletes what it wrote.
"""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as typed_parquet

from kaa.limits import (
    LAKE_OPEN_FILES_MAX,
    LAKE_ROW_GROUP_BYTES,
    LAKE_ROW_GROUP_ROWS_MAX,
)
from kaa.spark.formats import ERROR_COLUMN
from kaa.spark.formats.conform import conform
from kaa.spark.formats.untyped import pa, pc
from kaa.spark.lake.partitioning import divide, folder_of
from kaa.spark.lake.store import path_of
from kaa.spark.lake.table import WrittenFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaa.spark.formats import FormatPlan
    from kaa.spark.formats.untyped import RecordBatch, Schema
    from kaa.spark.lake.partitioning import Part, Term
    from kaa.spark.lake.table import WritePlace
    from kaa.spark.options import SourceOptions
    from kaa.spark.reading import Task

pq: Any = typed_parquet

TOMBSTONE = "kaa_tombstone"
"""The column of news that tells records that delete their key."""


@dataclass(frozen=True, slots=True)
class WriteTask:
    """One range of a round; pickled to an executor."""

    # None where the rows do not come from a topic.
    source: SourceOptions | None = field(repr=False)
    task: Task
    formats: FormatPlan | None = field(repr=False)
    terms: tuple[Term, ...]
    place: WritePlace = field(repr=False)
    commit_id: str
    file_bytes: int
    compression: str
    # Records of an upsert table need a key, and are news until they are merged.
    is_upsert: bool = False


def write(task: WriteTask) -> list[WrittenFile]:
    """Writes the files of a range."""
    from kaa.spark.reading import RangeReader

    assert task.source is not None, "a task that reads a topic"
    reader = RangeReader(task.source, task.task, task.source.columns)
    return write_batches(task, reader.batches())


def write_batches(task: WriteTask, batches: Iterable[RecordBatch]) -> list[WrittenFile]:
    """Writes the files of rows that were read."""
    files = _Files(task)
    dead_from = task.place.dead_from.get(task.task.range.partition.partition, 0)
    try:
        for batch in batches:
            good, bad = _judge(task, batch)
            if bad is not None:
                late = bad.filter(pc.greater_equal(bad.column("offset"), pa.scalar(dead_from)))
                files.add((), late, is_dead=True)
            if good.num_rows:
                shaped = _shaped(good, task.place.schema)
                if task.is_upsert:
                    shaped = shaped.append_column(TOMBSTONE, good.column("value").is_null())
                for part, rows in divide(shaped, task.terms):
                    files.add(part, rows, is_dead=False)
        return files.finish()
    except BaseException:
        files.abandon()
        raise


def _judge(task: WriteTask, batch: RecordBatch) -> tuple[RecordBatch, RecordBatch | None]:
    """Rows for the table, and rows for the dead letters."""
    reasons = None
    decoded = batch
    if task.formats is not None:
        decoded = task.formats.decode(batch)
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


def _shaped(batch: RecordBatch, schema: Schema) -> RecordBatch:
    """The columns of the table, in its order and types; what a batch lacks is null."""
    present = set(batch.schema.names)
    arrays = [
        conform(batch.column(one.name), one.type)
        if one.name in present
        else pa.nulls(batch.num_rows, one.type)
        for one in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _File:
    """One Parquet file that is being written."""

    def __init__(self, url: str, schema: Schema, task: WriteTask, filesystem: Any) -> None:
        self.url = url
        path = path_of(url)
        if task.place.store.is_local:
            filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        plain = [
            one.name for one in schema
            if not (pa.types.is_binary(one.type) or pa.types.is_nested(one.type))
        ]  # fmt: skip
        self.metadata: list[Any] = []
        self.writer = pq.ParquetWriter(
            path,
            schema,
            filesystem=filesystem,
            compression=task.compression,
            use_dictionary=plain,
            metadata_collector=self.metadata,
            write_page_index=False,
        )
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
    """The open files of a task, one for each part; the least used are closed first."""

    def __init__(self, task: WriteTask) -> None:
        self._task = task
        self._filesystem = task.place.store.filesystem()
        self._open: OrderedDict[tuple[bool, Part], _File] = OrderedDict()
        self._done: list[WrittenFile] = []
        self._urls: list[str] = []
        self._mark = os.urandom(4).hex()

    def add(self, part: Part, batch: RecordBatch, *, is_dead: bool) -> None:
        if not batch.num_rows:
            return
        key = (is_dead, part)
        file = self._open.get(key)
        if file is None:
            if len(self._open) >= LAKE_OPEN_FILES_MAX:
                self._close(next(iter(self._open)))
            file = self._open[key] = self._new(part, is_dead=is_dead)
        self._open.move_to_end(key)
        if is_dead:
            batch = _shaped(batch, self._task.place.dead_schema)
        file.add(batch)
        if sum(one.waiting_bytes for one in self._open.values()) >= LAKE_ROW_GROUP_BYTES:
            max(self._open.values(), key=lambda one: one.waiting_bytes).flush()
        if file.written_bytes + file.waiting_bytes >= self._task.file_bytes:
            self._close(key)

    def _new(self, part: Part, *, is_dead: bool) -> _File:
        place, task = self._task.place, self._task.task.range
        base = place.dead_url if is_dead else place.data_url
        folder = "" if is_dead else folder_of(self._task.terms, part)
        name = (
            f"{task.partition.topic}-{task.partition.partition}-{task.start}-{task.end}"
            f"-{self._task.commit_id}-{self._mark}-{len(self._urls)}.parquet"
        )
        url = "/".join(one for one in (base, folder, name) if one)
        self._urls.append(url)
        schema = place.dead_schema if is_dead else place.schema
        if self._task.is_upsert and not is_dead:
            schema = schema.append(pa.field(TOMBSTONE, pa.bool_()))
        return _File(url, schema, self._task, self._filesystem)

    def _close(self, key: tuple[bool, Part]) -> None:
        file = self._open.pop(key)
        file.flush()
        file.writer.close()
        size = self._filesystem.get_file_info(path_of(file.url)).size
        first = self._task.task.range.start if file.first is None else file.first
        self._done.append(
            WrittenFile(
                url=file.url,
                rows=file.rows,
                size_bytes=size,
                part=key[1],
                is_dead_letters=key[0],
                partition=self._task.task.range.partition.partition,
                first_offset=first,
                last_offset=file.last,
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


def write_ids(tasks: list[WriteTask], batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """What Spark runs: numbers of tasks in, descriptions of files out."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            described = [pickle.dumps(one) for one in write(tasks[number])]
            yield pa.RecordBatch.from_arrays([pa.array(described, pa.binary())], names=["file"])
