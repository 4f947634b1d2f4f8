"""Reads of a topic that leave out what a query does not need.

Spark tells a Python source neither the columns nor the filters of a query: without more, every
query reads the whole topic. Here both are said beforehand::

    orders = kaa.spark.plan_read(
        spark,
        "orders",
        options,
        where="partition = 1 and timestamp >= '2026-01-31' and price > 10",
        columns=["customer", "price"],
    )
    print(orders)  # which offsets and columns are read
    orders.load()  # a DataFrame; kaa.spark.read(...) gives it at once

Partitions, offsets and the beginning of a span of time become offsets to read between, which are
fixed when it is planned; the whole condition is applied by Spark again. The end of a span of time
becomes one only with `times_in_order`: times of records are what producers say, and a record that
came later may be older.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from kaa.model.words import count_text
from kaa.spark.entry import schema_of
from kaa.spark.errors import OptionError
from kaa.spark.filters import bounds_of, names_in
from kaa.spark.lookup import Lookup
from kaa.spark.offsets import nested
from kaa.spark.options import source_options
from kaa.spark.plan import OffsetRange
from kaa.spark.schema import COLUMN_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kaa.model.topics import TopicPartition
    from kaa.spark.filters import Bounds
    from kaa.spark.offsets import PartitionOffsets

_ELSEWHERE: Final = (
    "assign", "subscribe", "subscribepattern", "startingoffsets", "startingtimestamp",
    "startingoffsetsbytimestamp", "endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp",
    "columns",
)  # fmt: skip
_NEVER: Final = float("inf")


@dataclass(frozen=True)
class PlannedRead:
    """What a query reads of a topic; printed, it says so."""

    spark: SparkSession = field(repr=False)
    topic: str
    ranges: tuple[OffsetRange, ...]
    # What each partition holds.
    whole: tuple[OffsetRange, ...]
    # The columns that tasks read and hand to Spark, and how many there are.
    columns: tuple[str, ...]
    column_count: int
    where: str | None
    expressions: tuple[str, ...]
    notes: tuple[str, ...]
    # Options of the format `kaa` that read this.
    options: Mapping[str, str] = field(repr=False)
    schema: StructType | None = field(repr=False)

    @property
    def records(self) -> int:
        return sum(one.size for one in self.ranges)

    def load(self) -> DataFrame:
        """The rows, filtered and with the columns that were asked for."""
        reader = self.spark.read.format("kaa").options(**self.options)
        frame = (reader if self.schema is None else reader.schema(self.schema)).load()
        if self.where is not None:
            frame = frame.where(self.where)
        return frame.selectExpr(*self.expressions) if self.expressions else frame

    def __str__(self) -> str:
        total = sum(one.size for one in self.whole)
        counts = (
            f"{self.records:,} of {total:,} offsets, "
            f"{len(self.ranges)} of {count_text(len(self.whole), 'partition')}, "
            f"{len(self.columns)} of {count_text(self.column_count, 'column')}"
        )
        lines = [f"{self.topic}: {counts}"]
        lines += [
            f"  partition {one.partition.partition}: offsets {one.start:,} to {one.end - 1:,}"
            for one in self.ranges
        ]
        lines.append(f"  columns: {', '.join(self.columns)}")
        lines += [f"  filtered by Spark: {self.where}"] if self.where is not None else []
        return "\n".join([*lines, *(f"  note: {one}" for one in self.notes)])


def plan_read(
    spark: SparkSession,
    topic: str,
    options: Mapping[str, str],
    *,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    times_in_order: bool = False,
) -> PlannedRead:
    """Plans a batch query. `columns` are expressions; without them all columns are read.

    `options` are those of the format `kaa` that say how a topic is reached and decoded. Raises
    OptionError for those that say what is read of it.
    """
    given = {name.lower(): str(value) for name, value in options.items()}
    for name in _ELSEWHERE:
        if name in given:
            raise OptionError(f"option {name} is not allowed here: use topic, where and columns")
    expressions = tuple(columns or ())
    bounds = bounds_of(where or "", _zone(spark))
    lookup = Lookup(source_options({**given, "subscribe": topic}, is_stream=False))
    found = lookup.partitions().partitions
    first, last = lookup.earliest(found), lookup.latest(found)
    start, end, notes = _cut(lookup, bounds, first, last, times_in_order=times_in_order)
    # Spark wants to read something, and this is nothing: one partition from its end on.
    named = [one for one in found if one in start] or found[:1]
    options = {
        **given,
        "assign": json.dumps({topic: [one.partition for one in named]}),
        "startingOffsets": json.dumps(nested({one: start.get(one, last[one]) for one in named})),
        "endingOffsets": json.dumps(nested({one: end.get(one, last[one]) for one in named})),
    }
    schema, chosen, count = _columns(given | {"subscribe": topic}, where, expressions)
    if schema is None:
        options["columns"] = ",".join(chosen)
    return PlannedRead(
        spark,
        topic,
        tuple(OffsetRange(one, at, end[one]) for one, at in start.items() if end[one] > at),
        tuple(OffsetRange(one, at, last[one]) for one, at in first.items()),
        chosen,
        count,
        where,
        expressions,
        tuple(notes),
        options,
        schema,
    )


def read(
    spark: SparkSession,
    topic: str,
    options: Mapping[str, str],
    *,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    times_in_order: bool = False,
) -> DataFrame:
    """The rows of a topic; see `plan_read`, which also tells what is read for them."""
    return plan_read(
        spark, topic, options, where=where, columns=columns, times_in_order=times_in_order
    ).load()


def _zone(spark: Any) -> tzinfo | None:
    try:
        return ZoneInfo(spark.conf.get("spark.sql.session.timeZone"))
    except (ValueError, OSError, KeyError):
        # Java knows zones such as GMT+1; times without a zone are left to Spark then.
        return None


def _cut(
    lookup: Lookup,
    bounds: Bounds,
    first: PartitionOffsets,
    last: PartitionOffsets,
    *,
    times_in_order: bool,
) -> tuple[PartitionOffsets, PartitionOffsets, list[str]]:
    """Where reading begins and ends in each partition that can have rows."""
    wanted = [one for one in first if bounds.has(one.partition)]
    since = _at(lookup, wanted, bounds.timestamp.low, last) if bounds.timestamp.low > 0 else first
    notes: list[str] = []
    until: PartitionOffsets = last
    if bounds.timestamp.high < _NEVER:
        if times_in_order:
            until = _at(lookup, wanted, bounds.timestamp.high, last)
        else:
            notes.append("read to the end, since times may go back; times_in_order=True stops")
    start, end = {}, {}
    for one in wanted:
        low = max(first[one], since[one], min(bounds.offset.low, last[one]))
        high = min(last[one], until[one], max(bounds.offset.high, first[one]))
        if high > low:
            start[one], end[one] = int(low), int(high)
    return start, end, notes


def _at(
    lookup: Lookup, partitions: Sequence[TopicPartition], time_ms: float, last: PartitionOffsets
) -> PartitionOffsets:
    """The first record at or after a time in each partition; the end where there is none."""
    if time_ms == _NEVER:
        return last
    found = lookup.offsets(dict.fromkeys(partitions, max(0, int(time_ms))))
    return {one: at if at >= 0 else last[one] for one, at in found.items()}


def _columns(
    options: dict[str, str], where: str | None, expressions: tuple[str, ...]
) -> tuple[StructType | None, tuple[str, ...], int]:
    """The schema, for decoded topics; the columns to read, and how many there are."""
    schema = schema_of(options)
    if isinstance(schema, str):
        has_headers = options.get("includeheaders", "").lower() == "true"
        names = [one for one in COLUMN_TYPES if has_headers or one != "headers"]
    else:
        names = [one.name for one in schema.fields]
    needed: set[str] | None = set()
    for text in (*expressions, where or "") if expressions else ():
        found = names_in(text)
        needed = None if needed is None or found is None else needed | found
    if needed and expressions:
        # A row needs one column at least.
        chosen = tuple(one for one in names if one.lower() in needed) or ("offset",)
    else:
        chosen = tuple(names)
    if isinstance(schema, str):
        return None, chosen, len(names)
    kept = [one for one in schema.fields if one.name in chosen]
    return type(schema)(kept), chosen, len(names)
