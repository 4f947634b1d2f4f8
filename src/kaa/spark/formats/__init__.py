"""Keys and values of records decoded to columns: Avro, JSON, Protobuf, with or without a registry.

For a reader it is two lines. On the driver, once, from the options of the query (``options`` tells
their names)::

    plan = formats.plan(options, topics)  # None: nothing is to be decoded
    schema = plan.schema(schema)  # the columns that the query will have

and in each task, for each batch that was read::

    batch = plan.decode(batch)

A plan is picklable and small. ``decode`` takes a batch with a binary column ``value`` (and ``key``,
if keys are decoded), leaves all its columns as they are, and adds

- a column for each field of the value's schema; one whose name is taken by a column of the record
  (``timestamp``, ``offset``…) is called ``value_<name>``;
- a column ``key_<name>`` for each field of the key's schema;
- ``kaa_error``: null, or why the record could not be decoded. The added columns of such a record
  are null, its raw value and offset stay.

``badRecords`` says what happens to bad records: ``permissive`` keeps them as told above, ``drop``
leaves them out, ``fail`` raises ``BadRecordError``. A null value is no bad record: its columns are
null.

The modules: ``options`` what the user may say; ``registry`` schemas by HTTP; ``avro`` with its
compiled decoder and twin, ``json_schema``, ``protobuf`` one codec each; ``codec`` what they have in
common; ``conform`` several versions of a schema as one; ``decoding`` frames and groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from kaa.spark.formats.options import BadRecords, FormatOptions

__all__ = ["ERROR_COLUMN", "BadRecordError", "FormatPlan", "plan"]

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


@dataclass(frozen=True, slots=True)
class FormatPlan:
    """What is decoded, and to which columns."""

    parts: tuple[_Part, ...]
    bad_records: BadRecords

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

    def with_types(self, schema: pa.Schema) -> FormatPlan:
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
        import pyarrow as pa

        from kaa.spark.formats.decoding import decode_column, reader_codec, reasons

        arrays = list(batch.columns)
        errors: list[tuple[int, str]] = []
        for part in self.parts:
            reader = reader_codec(part.options, part.topic)
            decoded = decode_column(
                batch.column(part.options.side), part.options, reader, part.type
            )
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


def plan(options: Mapping[str, str], topics: Sequence[str]) -> FormatPlan | None:
    """What the options ask to decode; asks the registry for the schemas of the topics."""
    from kaa.spark.formats.codec import SchemaError
    from kaa.spark.formats.conform import widened
    from kaa.spark.formats.decoding import reader_codec
    from kaa.spark.formats.options import bad_records, format_options

    policy = bad_records(options)
    parts = []
    for side in ("key", "value"):
        wanted = format_options(options, side)
        if wanted is None:
            continue
        if not topics:
            raise SchemaError("there is no topic whose schema could be looked up")
        kind = reader_codec(wanted, topics[0]).type
        for topic in topics[1:]:
            both = widened(kind, reader_codec(wanted, topic).type)
            if both is None:
                raise SchemaError(f"the schemas of {topics[0]} and {topic} do not fit together")
            kind = both
        names = tuple(_name(side, field.name) for field in kind)
        parts.append(_Part(wanted, topics[0], names, kind))
    return FormatPlan(tuple(parts), policy) if parts else None


def _name(side: str, name: str) -> str:
    is_taken = name.lower() in {taken.lower() for taken in RECORD_COLUMNS}
    return f"{side}_{name}" if side == "key" or is_taken or name.startswith("key_") else name


def _place(batch: pa.RecordBatch, row: int) -> str:
    """The record as far as the batch tells."""
    names = [name for name in ("topic", "partition", "offset") if name in batch.schema.names]
    return "record " + " ".join(f"{name} {batch.column(name)[row].as_py()}" for name in names)
