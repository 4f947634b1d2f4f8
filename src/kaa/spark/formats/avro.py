"""Avro: a schema compiled to the program of the decoder, and its buffers made into Arrow arrays.

| Avro | column |
|---|---|
| null, boolean, int, long, float, double | null, boolean, int32, int64, float, double |
| bytes, fixed, string, enum | binary, binary, string, string |
| record, array, map | struct, list, map |
| union of null and one type | that type |
| any other union | struct of `member0`, `member1`...: one is not null |
| decimal (up to 38 digits) | decimal128; with more digits the bytes |
| date | date |
| timestamp-millis, -micros, -nanos | timestamp in UTC, microseconds |
| local-timestamp-* | timestamp without a zone, microseconds |
| uuid | string |
| time-*, duration | as they are stored |

A schema that contains itself has no columns and is refused.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.limits import FORMAT_SCHEMA_DEPTH_MAX
from kaa.spark.formats import _pure_avro as kinds
from kaa.spark.formats.codec import Decoded, SchemaError
from kaa.spark.formats.conform import list_of, struct_of
from kaa.spark.formats.untyped import pa
from kaa.twins import compiled

DECODER_NAME: Final = "python" if compiled("kaa.spark.formats._avro") is None else "cython"

if TYPE_CHECKING or DECODER_NAME == "python":
    from kaa.spark.formats._pure_avro import AvroDecoder, frame_ids
else:
    from kaa.spark.formats._avro import AvroDecoder, frame_ids

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.spark.formats.untyped import Array, DataType


__all__ = ["DECODER_NAME", "AvroCodec", "frame_ids"]

_PRIMITIVES: Final[dict[str, tuple[int, DataType]]] = {
    "null": (kinds.NULL_KIND, pa.null()),
    "boolean": (kinds.BOOLEAN, pa.bool_()),
    "int": (kinds.INT32, pa.int32()),
    "long": (kinds.INT64, pa.int64()),
    "float": (kinds.FLOAT, pa.float32()),
    "double": (kinds.DOUBLE, pa.float64()),
    "bytes": (kinds.BYTES, pa.binary()),
    "string": (kinds.STRING, pa.string()),
}
_TIMES: Final = {"millis": 1000, "micros": 1, "nanos": -1000}


class _Node(NamedTuple):
    """A column of the schema: its line in the program, and its type."""

    line: int
    kind: int
    type: DataType
    children: tuple[_Node, ...]


class AvroCodec:
    """One Avro schema. `references` are other schemas whose names it uses, in order."""

    def __init__(self, schema: str, references: Iterable[str] = ()) -> None:
        self.defaults: dict[tuple[str, ...], object] = {}
        self._program: list[kinds.NodeProgram] = []
        self._names: dict[str, Any] = {}
        self._open: list[str] = []
        for reference in references:
            _collect_names(_parse(reference), "", self._names)
        parsed = _parse(schema)
        _collect_names(parsed, "", self._names)
        self._root = self._compile(parsed, "", ())
        self._is_record = self._root.kind == kinds.RECORD
        self.type = self._root.type if self._is_record else struct_of({"decoded": self._root.type})
        if not self.type.num_fields:
            raise SchemaError("the schema has no fields")
        self._decoder = AvroDecoder(self._program)

    def decode(self, values: Array, skip: int = 0) -> Decoded:
        """Decodes a binary column; `skip` bytes before each value are not Avro."""
        validity, offsets, data = values.buffers()
        columns, errors = self._decoder.decode(
            None if validity is None else memoryview(validity),
            b"\0\0\0\0" if offsets is None else memoryview(offsets),
            b"" if data is None else memoryview(data),
            values.offset,
            len(values),
            skip,
        )
        rows = _array(self._root, columns)
        if not self._is_record:
            mask = rows.is_null()
            rows = pa.StructArray.from_arrays([rows], fields=list(self.type), mask=mask)
        assert isinstance(rows, pa.StructArray)
        return Decoded(
            rows, [(row, f"{kinds.ERRORS[code]}, at byte {at}") for row, code, at in errors]
        )

    # --- compiling

    def _add(self, kind: int, null_branch: int, size: int = 0, scale: int = 1) -> int:
        self._program.append((kind, size, null_branch, scale, (), ()))
        return len(self._program) - 1

    def _compile(
        self, schema: Any, space: str, path: tuple[str, ...], null_branch: int = -1
    ) -> _Node:
        if len(path) > FORMAT_SCHEMA_DEPTH_MAX:
            raise SchemaError(f"the schema is nested more than {FORMAT_SCHEMA_DEPTH_MAX} deep")
        if isinstance(schema, list):
            return self._compile_union(schema, space, path)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                kind, arrow = _PRIMITIVES[schema]
                return _Node(self._add(kind, null_branch), kind, arrow, ())
            return self._compile_named(schema, space, path, null_branch)
        if not isinstance(schema, dict) or "type" not in schema:
            raise SchemaError(f"not an Avro schema: {json.dumps(schema)[:80]}")
        what = schema["type"]
        if isinstance(what, dict | list):
            return self._compile(what, space, path, null_branch)
        logical = self._compile_logical(schema, null_branch)
        if logical is not None:
            return logical
        if what in {"record", "error"}:
            return self._compile_record(schema, space, path, null_branch)
        if what in {"array", "map"}:
            return self._compile_list(schema, space, path, null_branch)
        if what == "enum":
            index = self._add(kinds.ENUM, null_branch, len(schema["symbols"]))
            symbols = tuple(symbol.encode() for symbol in schema["symbols"])
            self._program[index] = (*self._program[index][:5], symbols)
            return _Node(index, kinds.ENUM, pa.string(), ())
        if what == "fixed":
            index = self._add(kinds.FIXED, null_branch, int(schema["size"]))
            return _Node(index, kinds.FIXED, pa.binary(), ())
        return self._compile(what, space, path, null_branch)

    def _compile_named(
        self, name: str, space: str, path: tuple[str, ...], null_branch: int
    ) -> _Node:
        full = name if "." in name or not space else f"{space}.{name}"
        found = self._names.get(full, self._names.get(name))
        if found is None:
            raise SchemaError(f"the schema uses {name!r}, which nothing defines")
        return self._compile(found[0], found[1], path, null_branch)

    def _compile_logical(self, schema: dict[str, Any], null_branch: int) -> _Node | None:
        what, logical = schema["type"], schema.get("logicalType")
        if logical == "decimal" and what in {"bytes", "fixed"} and schema["precision"] <= 38:
            kind = kinds.DECIMAL if what == "bytes" else kinds.DECIMAL_FIXED
            index = self._add(kind, null_branch, int(schema.get("size", 0)))
            arrow = pa.decimal128(schema["precision"], schema.get("scale", 0))
            return _Node(index, kind, arrow, ())
        if logical == "date" and what == "int":
            return _Node(self._add(kinds.INT32, null_branch), kinds.INT32, pa.date32(), ())
        if what == "long" and isinstance(logical, str):
            for prefix, zone in (("timestamp-", "UTC"), ("local-timestamp-", None)):
                unit = logical.removeprefix(prefix)
                if unit != logical and unit in _TIMES:
                    index = self._add(kinds.INT64, null_branch, scale=_TIMES[unit])
                    return _Node(index, kinds.INT64, pa.timestamp("us", tz=zone), ())
        return None

    def _compile_record(
        self, schema: dict[str, Any], space: str, path: tuple[str, ...], null_branch: int
    ) -> _Node:
        name, space = _full_name(schema, space)
        if name in self._open:
            raise SchemaError(f"{name} contains itself, which columns cannot")
        self._open.append(name)
        index = self._add(kinds.RECORD, null_branch)
        children, fields = [], {}
        for field in schema["fields"]:
            here = (*path, field["name"])
            child = self._compile(field["type"], space, here)
            children.append(child)
            fields[field["name"]] = child.type
            if field.get("default") is not None and not pa.types.is_nested(child.type):
                self.defaults[here] = _default(field["default"], child.type)
        self._open.pop()
        return self._close(index, kinds.RECORD, struct_of(fields), children)

    def _compile_list(
        self, schema: dict[str, Any], space: str, path: tuple[str, ...], null_branch: int
    ) -> _Node:
        if schema["type"] == "array":
            index = self._add(kinds.ARRAY, null_branch)
            item = self._compile(schema["items"], space, (*path, "[]"))
            return self._close(index, kinds.ARRAY, list_of(item.type), [item])
        index = self._add(kinds.MAP, null_branch)
        key = self._compile("string", space, path)
        value = self._compile(schema["values"], space, (*path, "[]"))
        return self._close(index, kinds.MAP, pa.map_(pa.string(), value.type), [key, value])

    def _compile_union(self, branches: list[Any], space: str, path: tuple[str, ...]) -> _Node:
        others = [branch for branch in branches if branch != "null"]
        if len(others) == 1 and len(branches) <= 2:
            null_branch = branches.index("null") if len(branches) == 2 else -1
            if null_branch >= 0 and not isinstance(others[0], list):
                return self._compile(others[0], space, path, null_branch)
        index = self._add(kinds.UNION, -1)
        children: list[_Node] = []
        branch_nodes: list[int] = []
        for branch in branches:
            if branch == "null":
                branch_nodes.append(-1)
                continue
            child = self._compile(branch, space, (*path, f"member{len(children)}"))
            branch_nodes.append(child.line)
            children.append(child)
        members = {f"member{number}": one.type for number, one in enumerate(children)}
        self._program[index] = (kinds.UNION, 0, -1, 1, tuple(branch_nodes), ())
        return _Node(index, kinds.UNION, struct_of(members), tuple(children))

    def _close(self, index: int, kind: int, arrow: DataType, children: list[_Node]) -> _Node:
        _, size, null_branch, scale, _, symbols = self._program[index]
        indexes = tuple(child.line for child in children)
        self._program[index] = (kind, size, null_branch, scale, indexes, symbols)
        return _Node(index, kind, arrow, tuple(children))


def _parse(schema: str) -> Any:
    try:
        return json.loads(schema)
    except ValueError as error:
        if schema.strip() in _PRIMITIVES:
            return schema.strip()
        raise SchemaError(f"the Avro schema is not JSON: {error}") from error


def _full_name(schema: dict[str, Any], space: str) -> tuple[str, str]:
    name = schema.get("name", "")
    if "." in name:
        return name, name.rpartition(".")[0]
    space = schema.get("namespace", space) or ""
    return f"{space}.{name}" if space else name, space


def _collect_names(schema: Any, space: str, names: dict[str, Any]) -> None:
    """Notes every named type, so that it can be used before or after it is defined."""
    if isinstance(schema, list):
        for branch in schema:
            _collect_names(branch, space, names)
    elif isinstance(schema, dict):
        inner = space
        if schema.get("type") in {"record", "error", "enum", "fixed"}:
            full, inner = _full_name(schema, space)
            names[full] = (schema, space)
        for field in schema.get("fields", ()):
            _collect_names(field.get("type"), inner, names)
        for part in ("items", "values", "type"):
            if isinstance(schema.get(part), dict | list):
                _collect_names(schema[part], inner, names)


def _default(value: Any, kind: DataType) -> object:
    """A default as Arrow takes it; Avro writes bytes as text of code points below 256."""
    if pa.types.is_binary(kind) and isinstance(value, str):
        return value.encode("latin-1")
    if pa.types.is_decimal(kind) or pa.types.is_temporal(kind):
        return None
    return value


def _array(node: _Node, columns: list[kinds.Column]) -> Array:
    length, nulls, validity, offsets, data = columns[node.line]
    if node.kind == kinds.NULL_KIND:
        return pa.nulls(length)
    parts = [None if validity is None else pa.py_buffer(validity)]
    if offsets is not None:
        parts.append(pa.py_buffer(offsets))
    if data is not None:
        parts.append(pa.py_buffer(data))
    children = [_array(child, columns) for child in node.children]
    if node.kind == kinds.MAP:
        fields = [pa.field("key", pa.string(), nullable=False), ("value", children[1].type)]
        children = [pa.StructArray.from_arrays(children, fields=list(pa.struct(fields)))]
    return pa.Array.from_buffers(node.type, length, parts, nulls, 0, children or None)
