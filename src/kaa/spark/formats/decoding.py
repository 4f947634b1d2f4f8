"""A binary column to columns: frames, one codec per writer's schema, and what cannot be decoded.

Confluent's frame before a value:

| offset | bytes |  |
|---|---|---|
| 0 | 1 | 0, the magic byte |
| 1 | 4 | id of the schema that the value was written with, big-endian |
| 5 | … | Protobuf alone: indexes of the message (`protobuf.message_indexes`) |
| … | … | the value |

Values are grouped by their frame, each group is decoded by the schema it was written with and
conformed to the columns of the plan, and the groups are put back in order. In a batch of one
schema, which is the usual one, nothing is copied for this.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.limits import FORMAT_DECODERS_CACHED_MAX, FORMAT_REASON_CHARACTERS_MAX
from kaa.spark.formats.avro import AvroCodec, frame_ids
from kaa.spark.formats.codec import Decoded, SchemaError
from kaa.spark.formats.conform import conform
from kaa.spark.formats.json_schema import InferredJsonCodec, JsonCodec
from kaa.spark.formats.protobuf import FIRST_MESSAGE, ProtobufCodec, message_indexes
from kaa.spark.formats.registry import SchemaNotFoundError, client
from kaa.spark.formats.untyped import pa, pc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaa.spark.formats.codec import SchemaCodec
    from kaa.spark.formats.options import FormatOptions
    from kaa.spark.formats.registry import RegisteredSchema
    from kaa.spark.formats.untyped import Array, StructType


_FRAME_BYTES: Final = 5
# Slices need an end: without one, pyarrow 26 fails.
_VALUE_END: Final = 2**31 - 1
_NO_FRAME: Final = -2
_REGISTRY_TYPES: Final = {"AVRO": "avro", "JSON": "json", "PROTOBUF": "protobuf"}


class _Reader(NamedTuple):
    """The columns that come out, and the values of fields that a writer does not know."""

    type: StructType
    defaults: Mapping[tuple[str, ...], object]


@lru_cache(maxsize=FORMAT_DECODERS_CACHED_MAX)
def codec(
    kind: str,
    schema: str | bytes,
    references: tuple[tuple[str, str], ...] = (),
    message: str | tuple[int, ...] | None = None,
) -> SchemaCodec:
    """The codec of a schema, compiled once in a process."""
    if kind == "avro":
        text = schema if isinstance(schema, str) else schema.decode()
        return AvroCodec(text, [text for _, text in references])
    if kind == "json":
        text = schema if isinstance(schema, str) else schema.decode()
        return JsonCodec(text, dict(references))
    return ProtobufCodec(schema, dict(references), message or FIRST_MESSAGE)


@lru_cache(maxsize=FORMAT_DECODERS_CACHED_MAX)
def inferred_codec(kind: StructType) -> InferredJsonCodec:
    """The codec of JSON with just these columns."""
    return InferredJsonCodec(kind)


def reader_codec(options: FormatOptions, topic: str) -> SchemaCodec:
    """The codec whose columns a reader of the topic gets."""
    if options.schema is not None:
        return codec(options.kind, options.schema, (), options.message)
    assert options.registry is not None
    registry = client(options.registry)
    if options.schema_id is not None:
        found = registry.schema(options.schema_id)
    else:
        subject = options.subject or f"{topic}-{options.side}"
        found = registry.version(subject, options.version)
    return _registered(options, found, None)


def _registered(
    options: FormatOptions, schema: RegisteredSchema, message: tuple[int, ...] | None
) -> SchemaCodec:
    kind = _REGISTRY_TYPES.get(schema.type)
    if kind != options.kind:
        raise SchemaError(f"schema {schema.id} is {schema.type}, not {options.kind}")
    return codec(kind, schema.text, schema.references, options.message or message)


def decode_column(
    values: Array, options: FormatOptions, codec_of_reader: SchemaCodec, kind: StructType
) -> Decoded:
    """Decodes the values to the columns of `kind`.

    Values without a frame do not say which schema they have; they get that of the reader.
    """
    reader = _Reader(kind, codec_of_reader.defaults)
    if not options.is_framed:
        try:
            return _conformed(codec_of_reader.decode(values), reader)
        except pa.ArrowException as error:
            return _all_bad(len(values), f"the schema does not fit the columns: {error}", reader)
    validity, offsets, data = values.buffers()
    ids = pa.Array.from_buffers(
        pa.int32(),
        len(values),
        [
            None,
            pa.py_buffer(
                frame_ids(
                    None if validity is None else memoryview(validity),
                    b"\0\0\0\0" if offsets is None else memoryview(offsets),
                    b"" if data is None else memoryview(data),
                    values.offset,
                    len(values),
                )
            ),
        ],
    )
    distinct = ids.unique().to_pylist()
    if len(distinct) == 1 and distinct[0] >= 0:
        return _decode_id(values, options, reader, distinct[0])
    groups = [number for number in distinct if number >= 0]
    parts = []
    for number in groups:
        rows = pc.indices_nonzero(pc.equal(ids, number))
        decoded = _decode_id(values.take(rows), options, reader, number)
        parts.append((rows.to_pylist(), decoded))
    errors = [
        (row, "no schema id before the value")
        for row in pc.indices_nonzero(pc.equal(ids, _NO_FRAME)).to_pylist()
    ]
    return _merged(len(values), parts, errors, reader)


def _decode_id(values: Array, options: FormatOptions, reader: _Reader, number: int) -> Decoded:
    """Decodes framed values that were all written with the schema of this id."""
    assert options.registry is not None
    try:
        schema = client(options.registry).schema(number)
        if options.kind == "protobuf":
            return _decode_messages(values, options, reader, schema)
        writer = _registered(options, schema, None)
        if isinstance(writer, AvroCodec):
            return _conformed(writer.decode(values, _FRAME_BYTES), reader)
        return _conformed(writer.decode(pc.binary_slice(values, _FRAME_BYTES, _VALUE_END)), reader)
    except (SchemaNotFoundError, SchemaError, pa.ArrowException) as error:
        return _all_bad(len(values), f"schema {number}: {error}", reader)


def _decode_messages(
    values: Array, options: FormatOptions, reader: _Reader, schema: RegisteredSchema
) -> Decoded:
    first = pc.binary_slice(values, _FRAME_BYTES, _FRAME_BYTES + 1).unique().to_pylist()
    if first == [b"\0"]:
        writer = _registered(options, schema, FIRST_MESSAGE)
        return _conformed(
            writer.decode(pc.binary_slice(values, _FRAME_BYTES + 1, _VALUE_END)), reader
        )
    groups: dict[tuple[int, ...], list[tuple[int, bytes]]] = {}
    errors = []
    for row, value in enumerate(values.to_pylist()):
        try:
            indexes, size = message_indexes(value[_FRAME_BYTES:])
            groups.setdefault(indexes, []).append((row, value[_FRAME_BYTES + size :]))
        except ValueError as error:
            errors.append((row, str(error)))
    parts = []
    for indexes, members in groups.items():
        writer = _registered(options, schema, indexes)
        bodies = pa.array([body for _, body in members], pa.binary())
        decoded = _conformed(writer.decode(bodies), reader)
        parts.append(([row for row, _ in members], decoded))
    return _merged(len(values), parts, errors, reader)


def _conformed(decoded: Decoded, reader: _Reader) -> Decoded:
    rows = conform(decoded.rows, reader.type, reader.defaults)
    assert isinstance(rows, pa.StructArray)
    return Decoded(rows, decoded.errors)


def _all_bad(count: int, reason: str, reader: _Reader) -> Decoded:
    rows = pa.nulls(count, reader.type)
    assert isinstance(rows, pa.StructArray)
    return Decoded(rows, [(row, reason) for row in range(count)])


def _merged(
    count: int,
    parts: Sequence[tuple[list[int], Decoded]],
    errors: list[tuple[int, str]],
    reader: _Reader,
) -> Decoded:
    """Groups put back in the order of rows; rows of no group are null."""
    places: list[int | None] = [None] * count
    base = 0
    for rows, decoded in parts:
        for at, row in enumerate(rows):
            places[row] = base + at
        errors += [(rows[at], reason) for at, reason in decoded.errors]
        base += len(rows)
    arrays = [decoded.rows for _, decoded in parts]
    joined = pa.concat_arrays(arrays) if arrays else pa.array([], reader.type)
    merged = joined.take(pa.array(places, pa.int64()))
    assert isinstance(merged, pa.StructArray)
    return Decoded(merged, sorted(errors))


def reasons(count: int, errors: Sequence[tuple[int, str]]) -> Array:
    """The column `kaa_error`."""
    if not errors:
        return pa.nulls(count, pa.string())
    texts: list[str | None] = [None] * count
    for row, reason in errors:
        before = texts[row]
        texts[row] = (reason if before is None else f"{before}; {reason}")[
            :FORMAT_REASON_CHARACTERS_MAX
        ]
    return pa.array(texts, pa.string())
