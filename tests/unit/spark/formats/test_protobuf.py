"""Protobuf to rows, from text and from descriptors."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest

from kaa.spark.formats import protobuf as module
from kaa.spark.formats.codec import SchemaError
from kaa.spark.formats.protobuf import ProtobufCodec, message_indexes

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  string name = 2;
  repeated string tags = 3;
  google.protobuf.Timestamp at = 4;
  enum Kind { NEW = 0; OLD = 1; }
  Kind kind = 5;
  optional double price = 6;
  uint64 large = 7;
  message Part { int32 n = 1; }
  Part part = 8;
  map<string, int32> counts = 9;
}
message Other { bool ok = 1; }
"""


def column(values: list[bytes | None]) -> Any:
    return pa.array(values, pa.binary())


# Fields 1 (varint 150), 2 ("x"), 5 (OLD) and 8 (n = 3), as the encoding has them.
ORDER = b"\x08\x96\x01" + b"\x12\x01x" + b"\x28\x01" + b"\x42\x02\x08\x03"


def test_rows() -> None:
    codec = ProtobufCodec(PROTO)
    decoded = codec.decode(column([ORDER, None, b"\xff", b""]))
    decoded.rows.validate(full=True)
    rows = decoded.rows.to_pylist()
    assert rows[0]["id"] == 150
    assert rows[0]["name"] == "x"
    assert rows[0]["kind"] == "OLD"
    assert rows[0]["part"] == {"n": 3}
    assert rows[0]["price"] is None
    assert rows[1:3] == [None, None]
    assert rows[3]["id"] == 0
    assert [row for row, _ in decoded.errors] == [2]
    assert str(codec.type.field("at").type) == "timestamp[us, tz=UTC]"
    assert codec.type.field("large").type == pa.decimal128(20, 0)
    assert all(field.nullable for field in codec.type)


def test_messages_by_name_and_by_index() -> None:
    assert ProtobufCodec(PROTO, message="shop.Other").type.field(0).name == "ok"
    assert ProtobufCodec(PROTO, message=(1,)).type.field(0).name == "ok"
    assert ProtobufCodec(PROTO, message=(0, 0)).type.field(0).name == "n"
    with pytest.raises(SchemaError, match="no message"):
        ProtobufCodec(PROTO, message=(7,))


def test_descriptors() -> None:
    files = module._compiled(PROTO, {})
    whole = ProtobufCodec(files.SerializeToString())
    single = ProtobufCodec(base64.b64encode(files.file[-1].SerializeToString()).decode())
    assert whole.type == single.type == ProtobufCodec(PROTO).type


def test_references() -> None:
    part = 'syntax = "proto3"; message Part { int32 n = 1; }'
    whole = 'syntax = "proto3"; import "a/part.proto"; message W { Part p = 1; }'
    codec = ProtobufCodec(whole, {"a/part.proto": part})
    decoded = codec.decode(column([b"\x0a\x02\x08\x03"]))
    assert decoded.rows.to_pylist() == [{"p": {"n": 3}}]
    with pytest.raises(SchemaError, match="cannot be named"):
        ProtobufCodec(whole, {"../part.proto": part})


@pytest.mark.parametrize("schema", ["message {", b"\xff\xff", "not base64!"])
def test_refused_schemas(schema: str | bytes) -> None:
    with pytest.raises(SchemaError):
        ProtobufCodec(schema)


def test_indexes_of_messages() -> None:
    assert message_indexes(b"\0rest") == ((0,), 1)
    assert message_indexes(b"\x04\x02\x00rest") == ((1, 0), 3)
    for value in (b"", b"\x04\x02", b"\x80\x80\x80\x80\x80\x01", b"\x01"):
        with pytest.raises(ValueError, match="indexes"):
            message_indexes(value)
