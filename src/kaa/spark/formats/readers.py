"""The readers of the data source, with decoded columns beside those of the record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.spark import formats
from kaa.spark.formats.options import format_options
from kaa.spark.schema import COLUMN_TYPES
from kaa.spark.topic_reader import TopicReader
from kaa.spark.topic_stream import TopicStreamReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from kaa.spark.formats import DecodePlan
    from kaa.spark.formats.inference import Inferred
    from kaa.spark.formats.options import Side
    from kaa.spark.options import SourceOptions


def is_decoding(options: Mapping[str, str]) -> bool:
    """Whether the options ask for decoded keys or values."""
    return any(format_options(options, side) is not None for side in ("key", "value"))


def plan_of(
    options: Mapping[str, str], source: SourceOptions, schema: StructType | None = None
) -> DecodePlan:
    """The plan of a query; a pattern of topics means those that there are.

    Inferred columns are those of the schema that Spark hands back, where it does: what is looked
    at a second time may look different.
    """
    from kaa.spark.lookup import Lookup

    topics: Sequence[str] = source.topics.names or sorted(
        {one.topic for one in source.topics.assigned or ()}
    )
    if not topics:
        topics = sorted(Lookup(source).partitions().topic_ids)

    def infer(side: Side) -> pa.StructType:
        if schema is not None:
            return _columns_of_side(side, schema)
        wanted = format_options(options, side)
        assert wanted is not None
        found = sampled_columns(source, side, has_only_doubles=wanted.has_only_doubles)
        kind: pa.StructType = found.type
        return kind

    planned = formats.plan(options, list(topics), infer)
    assert planned is not None, "asked only where something is decoded"
    return planned


def plan_with(options: Mapping[str, str], kind: pa.StructType) -> DecodePlan:
    """The plan of a query that decodes JSON values to columns that are known."""
    planned = formats.plan(options, [""], lambda _: kind)
    assert planned is not None, "asked only where something is decoded"
    return planned


def sampled_columns(source: SourceOptions, side: Side, *, has_only_doubles: bool) -> Inferred:
    """The columns of JSON keys or values, as far as some records tell."""
    from kaa.spark.formats.inference import infer, with_doubles
    from kaa.spark.sampling import sample

    found = infer(sample(source, side))
    return found._replace(type=with_doubles(found.type)) if has_only_doubles else found


def _columns_of_side(side: Side, schema: StructType) -> pa.StructType:
    from pyspark.sql.pandas.types import to_arrow_schema

    from kaa.spark.formats.conform import nullable, struct_of

    names = (
        (formats.field_of(side, one.name), one) for one in to_arrow_schema(schema, timezone="UTC")
    )
    kind: pa.StructType = struct_of(
        {name: nullable(one.type) for name, one in names if name is not None}
    )
    return kind


def decoded_schema(plan: DecodePlan, columns: Sequence[str]) -> StructType:
    """Columns of the record and the decoded ones, for Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from kaa.spark.formats.conform import list_of, struct_of
    from kaa.spark.formats.untyped import pa

    kinds = {
        "binary": pa.binary(),
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    headers = list_of(struct_of({"key": pa.string(), "value": pa.binary()}))
    record = [pa.field(name, kinds.get(COLUMN_TYPES[name], headers)) for name in columns]
    return from_arrow_schema(pa.schema([*record, *plan.fields()]))


def _record_part(schema: StructType) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([one for one in schema.fields if one.name in COLUMN_TYPES])


def _read_columns(present: tuple[str, ...], plan: DecodePlan) -> tuple[str, ...]:
    """What is read of each record: what was asked for, what is decoded, what names a bad one."""
    needed = [part.options.side for part in plan.parts]
    return tuple(dict.fromkeys((*present, *needed, "topic", "partition", "offset")))


def _decoded(
    plan: DecodePlan, names: Sequence[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = plan.decode(batch)
        if rows.num_rows:
            yield rows.select(list(names))


class DecodingReader(TopicReader):
    """The batch reader."""

    def __init__(self, options: SourceOptions, schema: StructType, plan: DecodePlan) -> None:
        super().__init__(options, _record_part(schema))
        self._columns = _read_columns(self._columns, plan)
        self._names = [one.name for one in schema.fields]
        self._plan = plan

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from _decoded(self._plan, self._names, super().read(partition))


class DecodingStreamReader(TopicStreamReader):
    """The stream reader. Its columns are fixed for a run; another schema needs a restart."""

    def __init__(
        self,
        options: SourceOptions,
        columns: tuple[str, ...],
        names: Sequence[str],
        plan: DecodePlan,
    ) -> None:
        super().__init__(options, columns)
        self._names = names
        self._plan = plan

    def __reduce__(self) -> tuple[Any, ...]:
        return DecodingStreamReader, (self._options, self._columns, self._names, self._plan)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from _decoded(self._plan, self._names, super().read(partition))


def stream_reader(
    options: SourceOptions, schema: StructType, plan: DecodePlan
) -> DecodingStreamReader:
    """The reader of a streaming query whose values are decoded."""
    present = tuple(one.name for one in _record_part(schema).fields)
    names = [one.name for one in schema.fields]
    return DecodingStreamReader(options, _read_columns(present, plan), names, plan)
