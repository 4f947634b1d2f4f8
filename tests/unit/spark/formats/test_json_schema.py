"""JSON Schema to columns, JSON text to rows."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from kaa.spark.formats.codec import SchemaError
from kaa.spark.formats.json_schema import JsonCodec

SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["null", "string"]},
        "price": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "ok": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "inner": {"$ref": "#/$defs/inner"},
    },
    "$defs": {"inner": {"type": "object", "properties": {"a": {"type": "integer"}}}},
}
ROW = {
    "id": 1,
    "name": "né\n",
    "price": 0.5,
    "ok": True,
    "tags": ["x"],
    "at": "2024-02-29T12:00:00.25Z",
    "day": "2024-02-29",
    "inner": {"a": 3},
}


def column(values: list[bytes | None]) -> Any:
    return pa.array(values, pa.binary())


def test_types() -> None:
    kind = JsonCodec(json.dumps(SCHEMA)).type
    assert str(kind.field("at").type) == "timestamp[us, tz=UTC]"
    assert kind.field("price").type == pa.float64()
    assert kind.field("inner").type == pa.struct([("a", pa.int64())])


def test_rows_with_bad_ones_between() -> None:
    good = json.dumps(ROW).encode()
    pretty = json.dumps({"id": 2, "extra": [1]}, indent=1).encode()
    bad = [
        b"", b"{", b"[1]", b"null", b"{} {}", b'{"id": "text"}', b'{"id":1}}\n{"row":{"id":9}',
        b'{"id":1},"at":7', b"\xff",
    ]  # fmt: skip
    values: list[bytes | None] = [good, None, pretty]
    for one in bad:
        values += [one, good]
    decoded = JsonCodec(json.dumps(SCHEMA)).decode(column(values))
    decoded.rows.validate(full=True)
    rows = decoded.rows.to_pylist()
    assert [row for row, _ in decoded.errors] == list(range(3, 3 + 2 * len(bad), 2))
    expected = {
        **ROW,
        "at": datetime(2024, 2, 29, 12, 0, 0, 250_000, tzinfo=UTC),
        "day": date(2024, 2, 29),
    }
    assert rows[0] == expected
    assert rows[1] is None
    assert rows[2]["id"] == 2
    assert rows[2]["name"] is None
    assert rows[4::2] == [expected] * len(bad)
    assert all(rows[row] is None for row, _ in decoded.errors)


def test_values_without_one_type_stay_text() -> None:
    schema = {
        "type": "object",
        "properties": {
            "any": {},
            "either": {"type": ["string", "integer"]},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "list": {"type": "array", "items": {}},
            "n": {"type": "integer"},
            "at": {"type": "string", "format": "date-time"},
        },
    }
    value = {"any": {"b": [1]}, "either": 5, "map": {"k": 1}, "list": [1, "x"], "n": 3}
    values = [json.dumps({**value, "at": "2024-02-29T12:00:00Z"}).encode(), None, b"7"]
    decoded = JsonCodec(json.dumps(schema)).decode(column([*values]))
    assert decoded.rows.to_pylist() == [
        {
            "any": '{"b":[1]}',
            "either": "5",
            "map": '{"k":1}',
            "list": ["1", "x"],
            "n": 3,
            "at": datetime(2024, 2, 29, 12, tzinfo=UTC),
        },
        None,
        None,
    ]
    assert decoded.errors == [(2, "not a JSON object")]


def test_references_to_other_schemas() -> None:
    schema = '{"type": "object", "properties": {"p": {"$ref": "part.json"}}}'
    part = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
    codec = JsonCodec(schema, {"part.json": part})
    assert codec.decode(column([b'{"p": {"n": 1}}'])).rows.to_pylist() == [{"p": {"n": 1}}]


@pytest.mark.parametrize(
    "schema",
    [
        "{",
        '{"type": "string"}',
        '{"type": "object", "properties": {"a": {"$ref": "#/none"}}}',
        '{"type": "object", "properties": {"a": {"$ref": "#"}}}',
    ],
)
def test_refused_schemas(schema: str) -> None:
    with pytest.raises(SchemaError):
        JsonCodec(schema)


def test_no_rows() -> None:
    assert JsonCodec(json.dumps(SCHEMA)).decode(column([])).rows.to_pylist() == []


@pytest.mark.parametrize("bad", ["1.5", "true", '"1"', "1e400", "[1]"])
def test_python_s_parser_cuts_nothing_off(bad: str) -> None:
    """A column of text beside it makes Python's parser read the values."""
    codec = JsonCodec('{"type": "object", "properties": {"n": {"type": "integer"}, "any": {}}}')
    decoded = codec.decode(column([b'{"n": %s}' % bad.encode(), b'{"n": 2.0, "any": 1.5}']))
    assert [row for row, _ in decoded.errors] == [0]
    assert decoded.rows.to_pylist() == [None, {"n": 2, "any": "1.5"}]
