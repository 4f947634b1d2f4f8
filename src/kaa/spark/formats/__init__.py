"""Keys and values of records decoded to columns: Avro, JSON, Protobuf, with or without a registry.

For a reader it is two lines. On the driver, once, from the options of the query (`options` tells
their names):

    plan = formats.plan(options, topics)  # None: nothing is to be decoded
    schema = plan.schema(schema)  # the columns that the query will have

and in each task, for each batch that was read:

    batch = plan.decode(batch)

A plan is picklable and small. `decode` takes a batch with a binary column `value` (and `key`,
if keys are decoded), leaves all its columns as they are, and adds

- a column for each field of the value's schema; one whose name is taken by a column of the record
  (`timestamp`, `offset`…) is called `value_<name>`;
- a column `key_<name>` for each field of the key's schema;
- `kaa_error`: null, or why the record could not be decoded. The added columns of such a record
  are null, its raw value and offset stay.

`badRecords` says what happens to bad records: `permissive` keeps them as said above, `drop`
leaves them out, `fail` raises `BadRecordError`. A null value is not a bad record: its columns are
null.

The modules: `options` what the user may say; `registry` schemas by HTTP; `avro` with its
compiled decoder and twin, `json_schema`, `protobuf` one codec each; `inference` columns of JSON
that nobody has described; `codec` what they have in common; `conform` several versions of a schema
as one; `decoding` frames and groups.

| module | what it owns |
|---|---|
| `readers` | the readers of the data source, with decoded columns beside those of the record |
| `untyped` | pyarrow without types, since its stubs describe an older version |
| `avro` | Avro: schemas to columns, and values decoded to them |
| `codec` | what every format offers: a schema as columns, and values decoded to them |
| `conform` | arrays brought into the shape of a table's columns |
| `decoding` | a binary column to columns |
| `inference` | the columns of JSON that nobody has described |
| `json_schema` | JSON Schema to columns, and JSON text decoded to them by pyarrow |
| `options` | the options that say how keys and values are decoded |
| `protobuf` | Protobuf by the package `ptars`, which decodes to Arrow in compiled code |
| `registry` | a client of schema registries with Confluent's HTTP interface |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from kaa.spark.formats.codec import Decoded
    from kaa.spark.formats.options import BadRecords, FormatOptions, Side

    Infer = Callable[[Side], pa.StructType]

__all__ = ["ERROR_COLUMN", "BadRecordError", "DecodePlan", "plan"]

ERROR_COLUMN = "kaa_error"
RECORD_COLUMNS = (
    "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ERROR_COLUMN,
)  # fmt: skip


class BadRecordError(Exception):
    """A record cannot be decoded, and the query asked to stop there."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What is decoded out of one binary column."""

    options: FormatOptions
    topic: str
    names: tuple[str, ...]
    type: pa.StructType

    def decode(self, batch: pa.RecordBatch) -> Decoded:
        from kaa.spark.formats.decoding import decode_column, inferred_codec, reader_codec

        values = batch.column(self.options.side)
        if self.options.is_inferred:
            return inferred_codec(self.type).decode(values)
        reader = reader_codec(self.options, self.topic)
        return decode_column(values, self.options, reader, self.type)


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """What is decoded, and to which columns."""

    parts: tuple[_Part, ...]
    bad_records: BadRecords

    @property
    def infers(self) -> bool:
        """Whether some of the columns are inferred."""
        return any(part.options.is_inferred for part in self.parts)

    def fields(self) -> list[pa.Field[Any]]:
        """The columns that decoding adds, all nullable."""
        import pyarrow as pa

        added = [
            pa.field(name, field.type)
            for part in self.parts
            for name, field in zip(part.names, part.type, strict=True)
        ]
        return [*added, pa.field(ERROR_COLUMN, pa.string())]

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of a batch that has been decoded."""
        import pyarrow as pa

        return pa.schema([*schema, *self.fields()])

    def with_types(self, schema: pa.Schema) -> DecodePlan:
        """The same plan, with the types that a table has for these columns."""
        from kaa.spark.formats.conform import nullable, struct_of

        known = {field.name: nullable(field.type) for field in schema}
        parts = []
        for part in self.parts:
            fields = {
                field.name: known.get(name, field.type)
                for name, field in zip(part.names, part.type, strict=True)
            }
            parts.append(replace(part, type=struct_of(fields)))
        return replace(self, parts=tuple(parts))

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the decoded columns."""
        return self._joined(batch, [one.decode(batch) for one in self.parts])

    def decode_seeing(
        self, batch: pa.RecordBatch
    ) -> tuple[pa.RecordBatch, dict[Side, pa.StructType]]:
        """The same, and the fields of JSON for which there are no inferred columns yet."""
        from kaa.spark.formats.decoding import inferred_codec

        found: list[Decoded] = []
        seen: dict[Side, pa.StructType] = {}
        for part in self.parts:
            if not part.options.is_inferred:
                found.append(part.decode(batch))
                continue
            values = batch.column(part.options.side)
            decoded, more = inferred_codec(part.type).decode_seeing(values)
            found.append(decoded)
            if more is not None:
                seen[part.options.side] = more
        return self._joined(batch, found), seen

    def _joined(self, batch: pa.RecordBatch, found: Sequence[Decoded]) -> pa.RecordBatch:
        import pyarrow as pa

        from kaa.spark.formats.decoding import reasons

        arrays = list(batch.columns)
        errors: list[tuple[int, str]] = []
        for part, decoded in zip(self.parts, found, strict=True):
            arrays += decoded.rows.flatten()
            errors += [
                (row, reason if part.options.side == "value" else f"key: {reason}")
                for row, reason in decoded.errors
            ]
        if errors and self.bad_records == "fail":
            row, reason = min(errors)
            raise BadRecordError(f"{_place(batch, row)}: {reason}")
        arrays.append(reasons(batch.num_rows, errors))
        decoded_batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema(batch.schema))
        if errors and self.bad_records == "drop":
            decoded_batch = decoded_batch.filter(decoded_batch.column(ERROR_COLUMN).is_null())
        return decoded_batch


def plan(
    options: Mapping[str, str], topics: Sequence[str], infer: Infer | None = None
) -> DecodePlan | None:
    """What the options ask to decode; asks the registry for the schemas of the topics, or `infer`
    for the columns of JSON that has no schema.
    """
    from kaa.spark.formats.codec import SchemaError
    from kaa.spark.formats.options import bad_records, format_options

    policy = bad_records(options)
    parts = []
    for side in ("key", "value"):
        wanted = format_options(options, side)
        if wanted is None:
            continue
        if not topics:
            raise SchemaError("there is no topic whose schema could be looked up")
        if not wanted.is_inferred:
            kind = _described(wanted, topics)
        elif infer is not None:
            kind = infer(wanted.side)
        else:
            raise SchemaError(f"{side}Format=json needs a schema here")
        names = tuple(_name(side, field.name) for field in kind)
        parts.append(_Part(wanted, topics[0], names, kind))
    return DecodePlan(tuple(parts), policy) if parts else None


def _described(wanted: FormatOptions, topics: Sequence[str]) -> pa.StructType:
    """The columns that the schemas of the topics have in common, as far as types go."""
    from kaa.spark.formats.codec import SchemaError
    from kaa.spark.formats.conform import widened
    from kaa.spark.formats.decoding import reader_codec

    kind: pa.StructType = reader_codec(wanted, topics[0]).type
    for topic in topics[1:]:
        both = widened(kind, reader_codec(wanted, topic).type)
        if both is None:
            raise SchemaError(f"the schemas of {topics[0]} and {topic} do not fit together")
        kind = both
    return kind


def field_of(side: Side, column: str) -> str | None:
    """The field of a key or value that a decoded column holds; None for other columns."""
    bare = column.removeprefix(f"{side}_")
    fitting = (name for name in (bare, column) if _name(side, name) == column)
    return None if column in RECORD_COLUMNS else next(fitting, None)


def _name(side: str, name: str) -> str:
    is_taken = name.lower() in {taken.lower() for taken in RECORD_COLUMNS}
    return f"{side}_{name}" if side == "key" or is_taken or name.startswith("key_") else name


def _place(batch: pa.RecordBatch, row: int) -> str:
    """The record as far as the batch tells."""
    names = [name for name in ("topic", "partition", "offset") if name in batch.schema.names]
    return "record " + " ".join(f"{name} {batch.column(name)[row].as_py()}" for name in names)
