"""One row per key: a round rewrites the buckets that it touches.

An upsert table is divided by ``bucket(n, key)``. A round writes its records as an append table
would, into files of their own (*the news*). The commit then merges, bucket by bucket, the files of
the table with the news: of each key the record with the highest offset stays, and a key whose last
record is a tombstone (a null value) goes. The merged files replace those of the touched buckets in
one commit, so that a reader sees a round as a whole. A record without a key is a dead letter: keys
are what rows are told apart by.

All records of a key are in one partition, where offsets say which is the last. A key can be in two
partitions if the topic got more of them, or if producers divide it in different ways: then the
record with the later timestamp wins.

A round costs reading and writing the touched buckets, however few records it has: choose buckets so
that one has some ten megabytes, and rounds of a minute or more.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as typed_parquet

from kaa.spark.formats.conform import conform
from kaa.spark.formats.untyped import pa, pc
from kaa.spark.lake.partitioning import folder_of
from kaa.spark.lake.store import path_of
from kaa.spark.lake.table import WrittenFile
from kaa.spark.lake.writing import TOMBSTONE, delete_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.spark.formats.untyped import Schema, Table
    from kaa.spark.lake.machine import Commit
    from kaa.spark.lake.partitioning import Part
    from kaa.spark.lake.settings import LakeSettings
    from kaa.spark.lake.table import DataFileInfo, LakeTable, WritePlace

pq: Any = typed_parquet


def merge(
    table: LakeTable,
    place: WritePlace,
    written: Sequence[WrittenFile],
    settings: LakeSettings,
    commit: Commit[list[WrittenFile]],
) -> tuple[list[WrittenFile], list[DataFileInfo]]:
    """The merged files of the touched buckets, and the files of the table that they replace."""
    letters = [one for one in written if one.is_dead_letters]
    news: dict[Part, list[WrittenFile]] = {}
    for file in written:
        if not file.is_dead_letters:
            news.setdefault(file.part, []).append(file)
    existing: dict[Part, list[DataFileInfo]] = {}
    for known in table.files():
        existing.setdefault(known.part, []).append(known)
    added, removed = list(letters), []
    for part, files in news.items():
        old = existing.get(part, [])
        removed += old
        rows = latest_per_key(
            _read([one.url for one in old], place, place.schema),
            _read([one.url for one in files], place, news_schema(place.schema)),
        )
        if rows.num_rows:
            added.append(_write(rows, part, files, place, settings, commit.commit_id))
    return added, removed


def news_schema(schema: Schema) -> Schema:
    """The columns of news: those of the table, and whether the record deletes its key."""
    return schema.append(pa.field(TOMBSTONE, pa.bool_()))


def latest_per_key(old: Table, news: Table) -> Table:
    """The last row of each key; none where that is a tombstone."""
    marked = old.append_column(TOMBSTONE, pa.nulls(old.num_rows, pa.bool_()).fill_null(False))
    rows = pa.concat_tables([marked, news.select(marked.schema.names).cast(marked.schema)])
    rows = rows.append_column("kaa_row", pa.array(range(rows.num_rows), pa.int64()))
    order = [("timestamp", "ascending"), ("offset", "ascending")]
    # Within a partition offsets decide; only a key that changed its partition needs the time.
    by_key = rows.select(["key", "partition", "offset", "timestamp", "kaa_row"])
    newest = by_key.sort_by([("offset", "ascending")])
    last = newest.group_by(["key", "partition"], use_threads=False).aggregate(
        [("offset", "last"), ("timestamp", "last"), ("kaa_row", "last")]
    )
    last = last.rename_columns(["key", "partition", "offset", "timestamp", "kaa_row"])
    if pc.count_distinct(last.column("key")).as_py() < last.num_rows:
        last = (
            last.sort_by(order)
            .group_by(["key"], use_threads=False)
            .aggregate([("kaa_row", "last")])
        )
        chosen = last.column("kaa_row_last")
    else:
        chosen = last.column("kaa_row")
    kept = rows.take(chosen.combine_chunks().sort())
    kept = kept.filter(pc.invert(kept.column(TOMBSTONE)))
    return kept.drop_columns([TOMBSTONE, "kaa_row"])


def _read(urls: Sequence[str], place: WritePlace, schema: Schema) -> Table:
    filesystem = place.store.filesystem()
    tables = []
    for url in urls:
        found = pq.read_table(path_of(url), filesystem=filesystem, partitioning=None)
        names = found.schema.names
        columns = [
            conform(found.column(one.name).combine_chunks(), one.type)
            if one.name in names and found.num_rows
            else pa.nulls(found.num_rows, one.type)
            for one in schema
        ]
        tables.append(pa.Table.from_arrays(columns, schema=schema))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _write(
    rows: Table,
    part: Part,
    news: Sequence[WrittenFile],
    place: WritePlace,
    settings: LakeSettings,
    commit_id: str,
) -> WrittenFile:
    import os

    folder = folder_of(settings.terms, part)
    name = f"{settings.topic}-upsert-{commit_id}-{os.urandom(4).hex()}.parquet"
    url = f"{place.data_url}/{folder}/{name}"
    filesystem = place.store.filesystem()
    path = path_of(url)
    if place.store.is_local:
        filesystem.create_dir(path.rpartition("/")[0], recursive=True)
    metadata: list[Any] = []
    rows = pa.Table.from_arrays(
        [rows.column(one.name).cast(one.type) for one in place.schema], schema=place.schema
    )
    with pq.ParquetWriter(
        path,
        place.schema,
        filesystem=filesystem,
        compression=settings.compression,
        metadata_collector=metadata,
    ) as writer:
        writer.write_table(rows)
    return WrittenFile(
        url=url,
        rows=rows.num_rows,
        size_bytes=filesystem.get_file_info(path).size,
        part=part,
        is_dead_letters=False,
        partition=news[0].partition,
        first_offset=min(one.first_offset for one in news),
        last_offset=max(one.last_offset for one in news),
        footer=pickle.dumps(metadata[0]),
    )


def drop_news(place: WritePlace, written: Sequence[WrittenFile]) -> None:
    """Deletes the files of news after their commit; they were never part of the table."""
    delete_files(place, [one.url for one in written if not one.is_dead_letters])
