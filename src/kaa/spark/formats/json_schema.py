"""JSON Schema to columns, and JSON text decoded to them by pyarrow.

| JSON Schema | column |
|---|---|
| object with properties | struct |
| array with items | list |
| integer, number, boolean | int64, double, boolean |
| string | string |
| string of format date-time, date | timestamp in UTC, date |
| null beside another type, also by oneOf | that type |
| anything else (no type, several types) | string: the JSON text of the value |

`$ref` is followed inside the schema and to referenced ones. Rules that only restrict values
(minimum, pattern, required...) do not change columns and are not checked: that is the producer's
part.

pyarrow parses many values at once, and its rows could shift if a value holds two objects or none.
So each value travels in an envelope `{"row":<value>,"at":<number>}`, and the numbers must come
back in order. A batch that fails is halved down to the values that are bad (`codec.isolate`).
Where the schema has values that stay text, Python's parser does the work, several times slower.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kaa.limits import FORMAT_SCHEMA_DEPTH_MAX
from kaa.spark.formats.codec import SchemaError, isolate
from kaa.spark.formats.conform import conform, list_of, struct_of
from kaa.spark.formats.inference import has_more, infer, joined
from kaa.spark.formats.untyped import pa, pc, pj

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.spark.formats.codec import Decoded
    from kaa.spark.formats.untyped import Array, DataType, StructArray, StructType


_SIMPLE: Final[dict[str, DataType]] = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
}
_FORMATS: Final[dict[str, DataType]] = {
    "date-time": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
}
_BLOCK_BYTES_MIN: Final = 64 * 1024
_BLOCK_BYTES_MAX: Final = 2**31 - 1


class JsonCodec:
    """One JSON Schema of objects. `references` are other schemas, by the name that refers."""

    def __init__(self, schema: str, references: Mapping[str, str] | None = None) -> None:
        self.defaults: dict[tuple[str, ...], object] = {}
        self._documents = {name: _parse(text) for name, text in (references or {}).items()}
        self._has_text = False
        root = _parse(schema)
        kind = self._type(root, root, 0)
        if not pa.types.is_struct(kind):
            raise SchemaError("the schema is not that of an object with properties")
        self.type: StructType = kind
        self._envelope = pa.schema([("row", _parsed(kind)), ("at", pa.int64())])

    def decode(self, values: Array) -> Decoded:
        return isolate(values, self._slow if self._has_text else self._fast, self.type)

    # --- columns

    def _type(self, schema: Any, root: Any, depth: int) -> DataType:
        if depth > FORMAT_SCHEMA_DEPTH_MAX:
            raise SchemaError(f"the schema is nested more than {FORMAT_SCHEMA_DEPTH_MAX} deep")
        if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
            return self._type(*self._resolve(schema["$ref"], root), depth + 1)
        choices = _choices(schema)
        if len(choices) != 1:
            return self._text()
        schema = choices[0]
        if "$ref" in schema:
            return self._type(schema, root, depth + 1)
        kind = schema.get("type")
        if kind == "object" and schema.get("properties"):
            return struct_of(
                {
                    name: self._type(part, root, depth + 1)
                    for name, part in schema["properties"].items()
                }
            )
        if kind == "array" and isinstance(schema.get("items"), dict):
            return list_of(self._type(schema["items"], root, depth + 1))
        if kind == "string" and schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]]
        return _SIMPLE[kind] if kind in _SIMPLE else self._text()

    def _text(self) -> DataType:
        self._has_text = True
        return pa.string()

    def _resolve(self, reference: str, root: Any) -> tuple[Any, Any]:
        name, _, pointer = reference.partition("#")
        document = root if not name else self._documents.get(name)
        found = document
        for part in pointer.split("/")[1:]:
            step = part.replace("~1", "/").replace("~0", "~")
            found = found.get(step) if isinstance(found, dict) else None
        if found is None:
            raise SchemaError(f"the schema refers to {reference!r}, which is not there")
        return found, document

    # --- values

    def _fast(self, values: Array) -> StructArray:
        return conform(self._read(values, "ignore"), self.type)

    def _read(self, values: Array, unexpected: str) -> StructArray:
        """Objects as pyarrow reads them; of fields without a column it takes the type it sees."""
        if not len(values):
            return pa.array([], self.type)
        numbers = pc.cast(pa.array(range(len(values)), pa.int64()), pa.string())
        present = pc.fill_null(values, b"null")
        lines: Any = pc.binary_join_element_wise(
            pa.scalar(b'{"row":'),
            present,
            pa.scalar(b',"at":'),
            numbers.cast(pa.binary()),
            pa.scalar(b"}\n"),
            pa.scalar(b""),
        )
        data = lines.buffers()[2]
        size = min(max(len(data) + 1, _BLOCK_BYTES_MIN), _BLOCK_BYTES_MAX)
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=size),
            parse_options=pj.ParseOptions(
                explicit_schema=self._envelope,
                newlines_in_values=True,
                unexpected_field_behavior=unexpected,
            ),
        )
        at = table.column("at").combine_chunks()
        if not at.equals(pa.array(range(len(values)), pa.int64())):
            raise ValueError("not one JSON object")
        rows = table.column("row").combine_chunks()
        if isinstance(rows, pa.ChunkedArray):
            rows = rows.chunk(0)
        if rows.null_count != values.null_count:
            raise ValueError("null, which is not a JSON object")
        return rows

    def _slow(self, values: Array) -> StructArray:
        rows = []
        for value in values.to_pylist():
            row = None if value is None else json.loads(value)
            if value is not None and not isinstance(row, dict):
                raise ValueError("not a JSON object")
            rows.append(None if row is None else _plain(row, self.type))
        return pa.array(rows, self.type)


class InferredJsonCodec(JsonCodec):
    """Columns that were found by looking at values, or that a table has.

    Nobody has promised that text is all that comes in a column of text: what else comes there is
    its JSON text. Python's parser reads those batches in which it does.
    """

    def __init__(self, kind: StructType) -> None:
        self.defaults = {}
        self.type = kind
        self._envelope = pa.schema([("row", _parsed(kind)), ("at", pa.int64())])

    def decode(self, values: Array) -> Decoded:
        return isolate(values, self._either, self.type)

    def decode_seeing(self, values: Array) -> tuple[Decoded, StructType | None]:
        """Decodes, and tells the fields of values that have more than the columns, if any do."""
        seen: list[DataType] = []

        def convert(part: Array) -> StructArray:
            try:
                rows = self._read(part, "infer")
                if has_more(self.type, rows.type):
                    seen.append(infer(part.to_pylist()).type)
                return conform(rows, self.type)
            except (ValueError, pa.ArrowException):
                rows = self._slow(part)
                seen.append(infer(part.to_pylist()).type)
                return rows

        decoded = isolate(values, convert if self.type.num_fields else self._slow, self.type)
        if not self.type.num_fields:
            seen.append(infer(values.to_pylist()).type)
        whole: DataType = pa.null()
        for one in seen:
            whole = joined(whole, one)
        return decoded, whole if has_more(self.type, whole) else None

    def _either(self, values: Array) -> StructArray:
        if not self.type.num_fields:
            return self._slow(values)
        try:
            return self._fast(values)
        except (ValueError, pa.ArrowException):
            return self._slow(values)


def _parsed(kind: DataType) -> DataType:
    """The type to parse as: pyarrow's parser takes dates for numbers."""
    if pa.types.is_struct(kind):
        return struct_of({field.name: _parsed(field.type) for field in kind})
    if pa.types.is_list(kind):
        return list_of(_parsed(kind.value_type))
    return pa.string() if pa.types.is_date(kind) else kind


def _choices(schema: Any) -> list[dict[str, Any]]:
    """What a value may be besides null; none and several mean that there is no one column type."""
    if not isinstance(schema, dict):
        return []
    for word in ("oneOf", "anyOf"):
        if isinstance(schema.get(word), list):
            found = [
                one for one in schema[word] if isinstance(one, dict) and one.get("type") != "null"
            ]
            return [choice for one in found for choice in _choices(one)]
    kind = schema.get("type")
    if isinstance(kind, list):
        return [{**schema, "type": one} for one in kind if one != "null"]
    return [schema]


def _plain(value: Any, kind: DataType) -> Any:
    """A parsed value as pyarrow takes it for `kind`; text where the column is text."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        if not isinstance(value, dict):
            raise ValueError("expected an object, found another kind of value")
        return {field.name: _plain(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        if not isinstance(value, list):
            raise ValueError("expected an array, found another kind of value")
        return [_plain(item, kind.value_type) for item in value]
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    if pa.types.is_temporal(kind) and isinstance(value, str):
        return pc.cast(pa.scalar(value), kind).as_py()
    if isinstance(value, bool) != pa.types.is_boolean(kind):
        raise ValueError(f"{json.dumps(value)} where {kind} belongs")
    # pyarrow would cut fractions off without a word.
    if pa.types.is_integer(kind) and isinstance(value, float):
        if not value.is_integer():
            raise ValueError(f"{value} where a whole number belongs")
        return int(value)
    return value


def _parse(schema: str) -> Any:
    try:
        return json.loads(schema)
    except ValueError as error:
        raise SchemaError(f"the JSON Schema is not JSON: {error}") from error
