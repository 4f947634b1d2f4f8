"""Tables read: as they are, as they were at an offset, and with the live tail of their topic.

*State at an offset.* Of an append table, all rows with an offset below the given one, exactly: a
newer version is read and what came later is left out. Of an upsert table, the newest version that
has nothing from the offset on; which offsets it has is said by the version.

*Table and tail.* One version of the table, then the topic from the offsets of that version on, so
that no record is missing and none is there twice; of an upsert table the latest of each key.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as typed_parquet

from kaa.spark.formats.conform import conform, nullable
from kaa.spark.formats.untyped import pa, pc
from kaa.spark.lake.settings import lake_settings
from kaa.spark.lake.store import path_of
from kaa.spark.lake.table import LakeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kaa.spark.formats.untyped import RecordBatch, Schema
    from kaa.spark.lake.folder import FolderLake
    from kaa.spark.lake.iceberg import IcebergLake
    from kaa.spark.lake.settings import LakeSettings
    from kaa.spark.lake.store import Store
    from kaa.spark.lake.table import TableState

pq: Any = typed_parquet


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What is read: the files of one version, and offsets that rows must be below."""

    state: TableState
    urls: tuple[str, ...]
    schema: Schema
    store: Store = field(repr=False)
    below: tuple[tuple[int, int], ...] | None = None


def open_existing(options: Mapping[str, Any]) -> tuple[LakeSettings, IcebergLake | FolderLake]:
    """A table to be read; of the options only those that say where it is matter."""
    given = {
        "topic": options.get("table", ""),
        "kafka.bootstrap.servers": "unused:9092",
        **{
            name: value
            for name, value in options.items()
            if name in {"table", "layout", "warehouse"} or name.startswith(("catalog.", "store."))
        },
    }
    if not given["topic"]:
        raise LakeError("name the table to read: option table")
    settings = lake_settings(given)
    if settings.layout == "iceberg":
        from kaa.spark.lake.iceberg import IcebergLake

        return settings, IcebergLake(settings, pa.schema([]), pa.schema([]))
    from kaa.spark.lake.folder import FolderLake

    return settings, FolderLake(settings, pa.schema([]), pa.schema([]))


def plan_read(
    settings: LakeSettings,
    table: IcebergLake | FolderLake,
    below: Mapping[int, int] | None = None,
    version: str | None = None,
) -> ReadPlan:
    """What to read for the newest state, for a version, or for the state at an offset."""
    history = table.history()
    if not history:
        raise LakeError(f"the table {settings.table} has no version with offsets yet")
    if version is not None:
        history = [one for one in history if one.version == version]
        if not history:
            raise LakeError(f"the table {settings.table} has no version {version}")
    state = history[-1]
    limits = None
    if below is not None and state.mode == "upsert":
        fitting = [
            one
            for one in history
            if all(at <= below.get(number, at) for number, at in one.offsets.items())
        ]
        if not fitting:
            raise LakeError("every version that is left has records from these offsets on")
        state = fitting[-1]
    elif below is not None:
        behind = {number: at for number, at in below.items() if at > state.offsets.get(number, 0)}
        if behind:
            raise LakeError(
                "the table has not come so far: "
                + ", ".join(
                    f"partition {number} is at {state.offsets.get(number, 0)}, not {at}"
                    for number, at in sorted(behind.items())
                )
            )
        limits = tuple(sorted(below.items()))
    files = table.files(state)
    schema = pa.schema([pa.field(one.name, nullable(one.type)) for one in table.schema()])
    return ReadPlan(state, tuple(one.url for one in files), schema, settings.store, limits)


def read_file(plan: ReadPlan, url: str) -> Iterator[RecordBatch]:
    """The rows of one file of a plan, in the columns of the table."""
    filesystem = plan.store.filesystem()
    with filesystem.open_input_file(path_of(url)) as source:
        file = pq.ParquetFile(source)
        for batch in file.iter_batches():
            names = set(batch.schema.names)
            columns = [
                conform(batch.column(one.name), one.type)
                if one.name in names
                else pa.nulls(batch.num_rows, one.type)
                for one in plan.schema
            ]
            rows = pa.RecordBatch.from_arrays(columns, schema=plan.schema)
            yield rows if plan.below is None else rows.filter(_is_below(rows, plan.below))


def _is_below(rows: RecordBatch, below: tuple[tuple[int, int], ...]) -> Any:
    kept = pa.array([False] * rows.num_rows)
    for partition, offset in below:
        here = pc.equal(rows.column("partition"), pa.scalar(partition, pa.int32()))
        before = pc.less(rows.column("offset"), pa.scalar(offset))
        kept = pc.or_(kept, pc.and_(here, before))
    return kept


def offsets_option(text: str | None) -> dict[int, int] | None:
    """Offsets as ``{"0": 12}``; None if there are none."""
    if text is None:
        return None
    try:
        parsed = json.loads(text)
        return {int(one): int(at) for one, at in parsed.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise LakeError(f'atOffsets is written as {{"0": 12, "1": 7}}, not {text}') from error


def table_options(settings: LakeSettings) -> dict[str, str]:
    """The options of the format ``kaa_table`` for a table."""
    return {
        "table": settings.table,
        "layout": settings.layout,
        "warehouse": settings.store.url,
        **{f"catalog.{name}": value for name, value in settings.catalog.items()},
        **{f"store.{name}": value for name, value in settings.store.options.items()},
    }


def with_live_tail(spark: Any, settings: LakeSettings) -> Any:
    """One DataFrame of the table and of what the topic has beyond it, as of now."""
    from kaa.spark.lake.driver import open_table

    table: Any = open_table(settings)
    state = plan_read(settings, table).state
    stored = (
        spark.read.format("kaa_table")
        .options(**table_options(settings))
        .option("version", state.version)
        .load()
    )
    starts = {str(one): at for one, at in sorted(state.offsets.items())}
    tail = (
        spark.read.format("kaa")
        .options(**{**settings.source(), **settings.formats})
        .option("startingOffsets", json.dumps({settings.topic: starts}))
        .load()
    )
    is_upsert = settings.mode == "upsert"
    if is_upsert:
        tail = tail.withColumn("kaa_tombstone", tail["value"].isNull())
        stored = stored.selectExpr("*", "false as kaa_tombstone")
    if "kaa_error" in tail.columns:
        tail = tail.where("kaa_error is null")
    both = stored.unionByName(tail, allowMissingColumns=True).select(*stored.columns)
    if not is_upsert:
        return both
    both.createOrReplaceTempView("kaa_table_and_tail")
    latest = spark.sql(
        "select * except (kaa_number) from (select *, row_number() over "
        "(partition by key order by offset desc) as kaa_number from kaa_table_and_tail) "
        "where kaa_number = 1 and not kaa_tombstone and key is not null"
    )
    return latest.drop("kaa_tombstone")
