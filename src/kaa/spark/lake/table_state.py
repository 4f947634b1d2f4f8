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
from typing import TYPE_CHECKING, Any, Final

from kaa.spark.formats.conform import nullable
from kaa.spark.formats.options import infers
from kaa.spark.formats.untyped import pa, pc
from kaa.spark.lake.settings import lake_settings
from kaa.spark.lake.table import LakeError, TableState
from kaa.spark.lookup import Lookup
from kaa.spark.offsets import EARLIEST
from kaa.spark.options import source_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kaa.spark.formats.untyped import RecordBatch, Schema
    from kaa.spark.lake.folder import FolderLake
    from kaa.spark.lake.iceberg.catalog import IcebergLake
    from kaa.spark.lake.settings import LakeSettings
    from kaa.spark.lake.table import DataFileInfo, FileReader

_TOMBSTONE: Final = "kaa_tombstone"
_NUMBER: Final = "kaa_number"


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What is read: the files of one version, and offsets that rows must be below."""

    state: TableState
    files: tuple[DataFileInfo, ...]
    schema: Schema
    reader: FileReader = field(repr=False)
    below: tuple[tuple[int, int], ...] | None = None


def open_existing(options: Mapping[str, Any]) -> tuple[LakeSettings, IcebergLake | FolderLake]:
    """A table to be read; of the options only those that say where it is matter."""
    given = {
        name: value
        for name, value in options.items()
        if name in {"table", "layout", "warehouse"} or name.startswith(("catalog.", "store."))
    }
    if not given.get("table"):
        raise LakeError("name the table to read: option table")
    settings = lake_settings(given, has_topic=False)
    if settings.layout == "iceberg":
        from kaa.spark.lake.iceberg.catalog import IcebergLake

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
        raise LakeError(f"the table {settings.table} has no version yet")
    if version is not None:
        # One that a branch or a tag names need not be where the newest one came from.
        known = table.data.knows(version) if hasattr(table, "data") else False
        other = [TableState(version, {}, "", None)] if known else []
        history = [one for one in history if one.version == version] or other
        if not history:
            raise LakeError(f"the table {settings.table} has no version {version}")
    state, limits = history[-1], None
    if below is not None:
        state, limits = _state_below(table, below)
    files = table.files(state)
    schema = pa.schema([pa.field(one.name, nullable(one.type)) for one in table.schema()])
    return ReadPlan(state, tuple(files), schema, table.reader(), limits)


def version_of(table: IcebergLake | FolderLake, kind: str, name: str) -> str:
    """The version that an option such as `branch` means."""
    if not hasattr(table, "data"):
        raise LakeError(f"a folder of Parquet files has no {kind}; version and atOffsets are known")
    return table.data.version_of(kind, name)


def _state_below(
    table: IcebergLake | FolderLake, below: Mapping[int, int]
) -> tuple[TableState, tuple[tuple[int, int], ...] | None]:
    """The state to read for given offsets, and the offsets if rows have to be left out."""
    known = table.known_offsets()
    if known and known[-1].mode == "upsert":
        fitting = [
            one
            for one in known
            if all(at <= below.get(number, at) for number, at in one.offsets.items())
        ]
        if not fitting:
            raise LakeError("every version that is left has records from these offsets on")
        return fitting[-1], None
    state = table.state().trusted()
    behind = {number: at for number, at in below.items() if at > state.offsets.get(number, 0)}
    if behind:
        raise LakeError(
            "the table has not come so far: "
            + ", ".join(
                f"partition {number} is at {state.offsets.get(number, 0)}, not {at}"
                for number, at in sorted(behind.items())
            )
        )
    return state, tuple(sorted(below.items()))


def read_file(plan: ReadPlan, file: DataFileInfo) -> Iterator[RecordBatch]:
    """The rows of one file of a plan, in the columns of the table."""
    for rows in plan.reader.batches(file, plan.schema):
        yield rows if plan.below is None else rows.filter(_is_below(rows, plan.below))


def _is_below(rows: RecordBatch, below: tuple[tuple[int, int], ...]) -> Any:
    kept = pa.array([False] * rows.num_rows)
    for partition, offset in below:
        here = pc.equal(rows.column("partition"), pa.scalar(partition, pa.int32()))
        before = pc.less(rows.column("offset"), pa.scalar(offset))
        kept = pc.or_(kept, pc.and_(here, before))
    return kept


def offsets_option(text: str | None, option: str = "atOffsets") -> dict[int, int] | None:
    """Offsets as `{"0": 12}`; None if there are none."""
    if text is None:
        return None
    try:
        parsed = json.loads(text)
        return {int(one): int(at) for one, at in parsed.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise LakeError(f'{option} is written as {{"0": 12, "1": 7}}, not {text}') from error


def table_options(settings: LakeSettings) -> dict[str, str]:
    """The options of the format `kaa_table` for a table."""
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
    state = table.state().trusted()
    if not table.history():
        raise LakeError(f"the table {table.settings.table} has no version yet")
    names = {source: name for name, source in table.sources().items()}
    stored = (
        spark.read.format("kaa_table")
        .options(**table_options(table.settings))
        .option("version", state.version)
        .load()
    )
    reader = spark.read.format("kaa").options(**_tail_options(table.settings, state))
    if infers(table.settings.formats):
        # The tail has the columns of the table, and not those of a look at some records.
        reader = reader.schema(_tail_schema(table))
    tail = reader.load()
    is_upsert = table.settings.mode == "upsert"
    if is_upsert:
        tail = tail.withColumn(_TOMBSTONE, tail["value"].isNull())
        stored = stored.selectExpr("*", f"false as {_TOMBSTONE}")
    if "kaa_error" in tail.columns:
        tail = tail.where("kaa_error is null")
    tail = tail.withColumnsRenamed(names)
    both = stored.unionByName(tail, allowMissingColumns=True).select(*stored.columns)
    return _latest_of_keys(both, names) if is_upsert else both


def _tail_options(settings: LakeSettings, state: TableState) -> dict[str, str]:
    """Reads the topic from the offsets of a state on; from its start where these are not known."""
    source = settings.source()
    found = Lookup(source_options(source, is_stream=False)).partitions().partitions
    starts = {str(one.partition): state.offsets.get(one.partition, EARLIEST) for one in found}
    source.pop("subscribe")
    return {
        **source,
        **settings.formats,
        # Named one by one, so that a partition that comes meanwhile is left to the next look.
        "assign": json.dumps({settings.topic: sorted(one.partition for one in found)}),
        "startingOffsets": json.dumps({settings.topic: starts}),
    }


def _tail_schema(table: Any) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    from kaa.spark.formats import ERROR_COLUMN
    from kaa.spark.lake.driver import COLUMN_TYPES

    read = source_options(table.settings.source(), is_stream=False).columns
    names = table.sources()
    own = [one.with_name(names.get(one.name, one.name)) for one in table.schema()]
    record = [pa.field(name, COLUMN_TYPES[name]) for name in read]
    decoded = [one for one in own if one.name not in COLUMN_TYPES]
    return from_arrow_schema(pa.schema([*record, *decoded, pa.field(ERROR_COLUMN, pa.string())]))


def _latest_of_keys(rows: Any, names: Mapping[str, str]) -> Any:
    """The last row of each key, as `upsert` chooses it: within a partition offsets decide, and
    between partitions the time does.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as typed_functions

    functions: Any = typed_functions
    key, partition, offset, timestamp = (
        names.get(one, one) for one in ("key", "partition", "offset", "timestamp")
    )
    by_partition: Any = Window.partitionBy(key, partition).orderBy(functions.desc(offset))
    by_key: Any = Window.partitionBy(key).orderBy(functions.desc(timestamp), functions.desc(offset))
    number = functions.row_number()
    return (
        rows.where(rows[key].isNotNull())
        .withColumn(_NUMBER, number.over(by_partition))
        .where(f"{_NUMBER} = 1")
        .withColumn(_NUMBER, number.over(by_key))
        .where(f"{_NUMBER} = 1 and not {_TOMBSTONE}")
        .drop(_NUMBER, _TOMBSTONE)
    )
