"""Frames, several schemas in one batch, and what happens to bad records."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kaa.spark.formats import BadRecordError, plan
from kaa.spark.formats.codec import SchemaError
from kaa.testing.registry import Registry

FIRST = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
SECOND = (
    '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"},'
    ' {"name": "offset", "type": "string", "default": "none"}]}'
)
PROTO = 'syntax = "proto3"; message A { int32 a = 1; } message B { int32 b = 1; int32 a = 2; }'


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as running:
        yield running


def batch(values: list[bytes | None], keys: list[bytes | None] | None = None) -> Any:
    columns: Any = {
        "key": pa.array(keys or [None] * len(values), pa.binary()),
        "value": pa.array(values, pa.binary()),
        "offset": pa.array(range(len(values)), pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_versions_of_a_schema_in_one_batch(registry: Registry) -> None:
    first = registry.register("orders-value", FIRST)
    second = registry.register("orders-value", SECOND)
    options = {"valueFormat": "avro", "schemaRegistry.url": registry.url}
    wanted = plan(options, ["orders"])
    assert wanted is not None
    wanted = pickle.loads(pickle.dumps(wanted))
    values: list[bytes | None] = [
        registry.frame(second, b"\x02\x02x"),
        registry.frame(first, b"\x04"),
        None,
        b"no frame",
        registry.frame(77, b"\x04"),
        registry.frame(first, b""),
    ]
    decoded = wanted.decode(batch(values))
    assert decoded.schema.names == ["key", "value", "offset", "a", "value_offset", "kaa_error"]
    assert decoded.column("value").to_pylist() == values
    assert decoded.column("a").to_pylist() == [1, 2, None, None, None, None]
    assert decoded.column("value_offset").to_pylist() == ["x", "none", None, None, None, None]
    reasons = decoded.column("kaa_error").to_pylist()
    assert reasons[:3] == [None, None, None]
    assert reasons[3] == "no schema id before the value"
    assert "Schema not found" in reasons[4]
    assert "ends too early" in reasons[5]
    assert decoded.schema.equals(wanted.schema(batch(values).schema))


def test_policies(registry: Registry) -> None:
    number = registry.register("orders-value", FIRST)
    values: list[bytes | None] = [registry.frame(number, b"\x04"), b"bad"]
    options = {"valueFormat": "avro", "schemaRegistry.url": registry.url}
    dropping = plan({**options, "badRecords": "drop"}, ["orders"])
    failing = plan({**options, "BADRECORDS": "FAIL"}, ["orders"])
    assert dropping is not None
    assert failing is not None
    assert dropping.decode(batch(values)).column("a").to_pylist() == [2]
    with pytest.raises(BadRecordError, match="offset 1: no schema id"):
        failing.decode(batch(values))


def test_keys_and_files(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"type": "object", "properties": {"n": {"type": "integer"}}}')
    options = {"valueFormat": "json", "valueSchemaFile": str(file)}
    options |= {"keyFormat": "avro", "keySchema": '"string"'}
    wanted = plan(options, ["orders"])
    assert wanted is not None
    decoded = wanted.decode(batch([b'{"n": 5}', b"{}"], [b"\x02k", b"\x02"]))
    assert decoded.column("key_decoded").to_pylist() == ["k", None]
    assert decoded.column("n").to_pylist() == [5, None]
    assert decoded.column("kaa_error").to_pylist() == [
        None,
        "key: the value ends too early, at byte 1",
    ]


def test_json_and_protobuf_in_frames(registry: Registry) -> None:
    text = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
    number = registry.register("j-value", text, kind="JSON")
    options = {"schemaRegistry.url": registry.url}
    wanted = plan({**options, "valueFormat": "json-schema"}, ["j"])
    assert wanted is not None
    rows = wanted.decode(batch([registry.frame(number, b'{"n": 5}')]))
    assert rows.column("n").to_pylist() == [5]
    number = registry.register("p-value", PROTO, kind="PROTOBUF")
    wanted = plan({**options, "valueFormat": "protobuf"}, ["p"])
    assert wanted is not None
    values: list[bytes | None] = [registry.frame(number, b"\x08\x03", b"\0")] * 2
    decoded = wanted.decode(batch(values))
    assert decoded.column("kaa_error").to_pylist() == [None, None]
    assert decoded.column("a").to_pylist() == [3, 3]
    values += [registry.frame(number, b"\x10\x04", b"\x02\x02"), registry.frame(number, b"\x01")]
    decoded = wanted.decode(batch(values))
    assert decoded.column("a").to_pylist() == [3, 3, 4, None]
    assert "indexes" in str(decoded.column("kaa_error").to_pylist()[3])


def test_several_topics(registry: Registry) -> None:
    registry.register("a-value", FIRST)
    registry.register("b-value", SECOND)
    registry.register("c-value", FIRST.replace('"int"', '"string"'))
    options = {"valueFormat": "avro", "schemaRegistry.url": registry.url}
    both = plan(options, ["a", "b"])
    assert both is not None
    assert [str(field.type) for field in both.fields()] == ["int64", "string", "string"]
    with pytest.raises(SchemaError, match="do not fit"):
        plan(options, ["a", "c"])


def test_another_kind_than_was_said(registry: Registry) -> None:
    number = registry.register("a-value", FIRST)
    other = registry.register("b", "{}", kind="JSON")
    options = {"valueFormat": "avro", "schemaRegistry.url": registry.url}
    wanted = plan({**options, "valueSchemaId": str(number)}, ["x"])
    assert wanted is not None
    decoded = wanted.decode(batch([registry.frame(other, b"{}")]))
    assert "JSON, not avro" in str(decoded.column("kaa_error").to_pylist()[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"valueFormat": "xml"}, "valueFormat is 'xml'"),
        ({"valueFormat": "avro"}, "needs valueSchemaFile or"),
        ({"valueFormat": "avro", "valueSchema": "x", "valueSchemaFile": "y"}, "not both"),
        ({"valueFormat": "avro", "valueSchema": '"int"', "valueFraming": "x"}, "confluent or none"),
        ({"valueFormat": "avro", "valueSchema": '"int"', "valueFraming": "confluent"}, "needs sch"),
        ({"badRecords": "maybe"}, "permissive, drop or fail"),
    ],
)
def test_refused_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(options, ["t"])


def test_nothing_to_decode() -> None:
    assert plan({"valueFormat": "binary"}, ["t"]) is None
    with pytest.raises(SchemaError, match="no topic"):
        plan({"valueFormat": "avro", "valueSchema": '"int"'}, [])
