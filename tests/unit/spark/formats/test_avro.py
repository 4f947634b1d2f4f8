"""Avro to Arrow, by the compiled decoder and its twin, beside fastavro."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa.spark.formats import _pure_avro
from kaa.spark.formats import avro as module
from kaa.spark.formats.avro import AvroCodec
from kaa.spark.formats.codec import SchemaError

Make = Callable[..., AvroCodec]

RECORD = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "price", "type": ["null", "double"], "default": None},
        {"name": "ratio", "type": "float"},
        {"name": "small", "type": ["int", "null"]},
        {"name": "ok", "type": "boolean"},
        {"name": "raw", "type": "bytes"},
        {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 3}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "again", "type": "Kind"},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "either", "type": ["null", "int", "string"]},
        {
            "name": "inner",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Inner",
                    "fields": [
                        {"name": "a", "type": "int"},
                        {"name": "points", "type": {"type": "array", "items": "double"}},
                    ],
                },
            ],
        },
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "amount",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        },
        {"name": "nothing", "type": "null"},
    ],
}


@pytest.fixture(params=["chosen", "python"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes codecs with the decoder that was built, and with its twin."""
    if request.param == "python":
        monkeypatch.setattr(module, "AvroDecoder", _pure_avro.AvroDecoder)
    return AvroCodec


def encoded(value: Any, schema: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def column(values: list[bytes | None]) -> Any:
    return pa.array(values, pa.binary())


def order(seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    return {
        "id": chance.randrange(-(2**63), 2**63),
        "name": "né" * chance.randrange(5),
        "price": chance.choice([None, 0.5, -1e300]),
        "ratio": 0.25,
        "small": chance.choice([None, -(2**31), 2**31 - 1]),
        "ok": chance.random() < 0.5,
        "raw": chance.randbytes(chance.randrange(9)),
        "code": b"abc",
        "kind": "OLD",
        "again": "NEW",
        "tags": [chance.choice([None, "x", "yy"]) for _ in range(chance.randrange(4))],
        "counts": {str(key): key for key in range(chance.randrange(3))},
        "either": chance.choice([None, 7, "seven"]),
        "inner": chance.choice([None, {"a": 1, "points": [0.5] * chance.randrange(3)}]),
        "day": date(2024, 2, 29),
        "at": datetime(2024, 2, 29, 12, tzinfo=UTC),
        "amount": Decimal("-12345.67"),
        "nothing": None,
    }


def as_decoded(value: dict[str, Any]) -> dict[str, Any]:
    """What the columns hold for a value: maps as pairs, unions as members."""
    either = value["either"]
    members = None
    if either is not None:
        is_text = isinstance(either, str)
        members = {"member0": None if is_text else either, "member1": either if is_text else None}
    return {**value, "counts": list(value["counts"].items()), "either": members}


def test_every_type_beside_fastavro(make: Make) -> None:
    values = [order(seed) for seed in range(300)]
    decoded = make(json.dumps(RECORD)).decode(column([encoded(one, RECORD) for one in values]))
    decoded.rows.validate(full=True)
    assert decoded.errors == []
    assert decoded.rows.to_pylist() == [as_decoded(one) for one in values]


def test_bad_values_leave_nothing_behind(make: Make) -> None:
    """Whatever a value is cut to, the rows around it are whole."""
    values = [order(seed) for seed in range(40)]
    data: list[bytes | None] = [encoded(one, RECORD) for one in values]
    chance = random.Random(3)
    bad = set(range(0, 40, 3))
    for row in bad:
        whole = data[row]
        assert whole is not None
        data[row] = whole[: chance.randrange(len(whole))]
    data[1] = None
    decoded = make(json.dumps(RECORD)).decode(column(data))
    decoded.rows.validate(full=True)
    assert {row for row, _ in decoded.errors} == bad
    expected = [None if row in bad or row == 1 else as_decoded(values[row]) for row in range(40)]
    assert decoded.rows.to_pylist() == expected


def test_slices_and_skipped_bytes(make: Make) -> None:
    schema = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
    values = column([None, b"....." + b"\x02", b"....." + b"\x04", b"..."])
    codec = make(schema)
    assert not isinstance(codec.type, dict)
    decoded = codec.decode(values.slice(1, 3), 5)
    assert decoded.rows.to_pylist() == [{"a": 1}, {"a": 2}, None]
    assert decoded.errors == [(2, "the value ends too early, at byte 3")]
    assert make(schema).decode(column([])).rows.to_pylist() == []


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        ('"long"', b"\xff" * 11, "too many bytes"),
        ('"int"', b"\x80\x80\x80\x80\x10", "out of range"),
        ('"string"', b"\x01", "negative"),
        ('"string"', b"\x04\xc3\x28", "not UTF-8"),
        ('"boolean"', b"\x02", "neither 0 nor 1"),
        ('["null", "int"]', b"\x04", "no such branch"),
        ('["null", "int", "string"]', b"\x08", "no such branch"),
        ('{"type": "enum", "name": "E", "symbols": ["A"]}', b"\x02", "no such symbol"),
        ('{"type": "array", "items": "null"}', b"\xfe\xff\xff\xff\x0f\x00", "count of items"),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 9}', b"\x00", "decimal"),
        (
            '{"type": "long", "logicalType": "timestamp-millis"}',
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "out of range",
        ),
        ('"int"', b"\x02\x02", "left over"),
    ],
)
def test_reasons(make: Make, kind: str, data: bytes, reason: str) -> None:
    schema = f'{{"type": "record", "name": "R", "fields": [{{"name": "a", "type": {kind}}}]}}'
    decoded = make(schema).decode(column([data]))
    decoded.rows.validate(full=True)
    assert decoded.rows.to_pylist() == [None]
    assert len(decoded.errors) == 1
    assert reason in decoded.errors[0][1]


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_twins_agree_on_any_bytes(values: list[bytes]) -> None:
    codec = AvroCodec(json.dumps(RECORD))
    twin = AvroCodec(json.dumps(RECORD))
    twin._decoder = _pure_avro.AvroDecoder(twin._program)
    first, second = codec.decode(column([*values])), twin.decode(column([*values]))
    first.rows.validate(full=True)
    assert first.rows.equals(second.rows)
    assert first.errors == second.errors


def test_a_block_may_say_its_size(make: Make) -> None:
    schema = '{"type": "array", "items": "int"}'
    decoded = make(schema).decode(column([b"\x03\x04\x02\x04\x00"]))
    assert decoded.rows.to_pylist() == [{"decoded": [1, 2]}]


def test_nanoseconds_become_microseconds(make: Make) -> None:
    schema = '{"type": "long", "logicalType": "timestamp-nanos"}'
    decoded = make(schema).decode(column([b"\x01", b"\xd0\x0f"]))
    assert decoded.rows.field(0).cast(pa.int64()).to_pylist() == [-1, 1]


def test_names_and_references() -> None:
    fields = '[{"name": "n", "type": "int"}]'
    part = f'{{"type": "record", "name": "Part", "namespace": "x", "fields": {fields}}}'
    whole = '{"type": "record", "name": "W", "fields": [{"name": "p", "type": "x.Part"}]}'
    assert AvroCodec(whole, [part]).decode(column([b"\x02"])).rows.to_pylist() == [{"p": {"n": 1}}]
    with pytest.raises(SchemaError, match=r"x\.Part"):
        AvroCodec(whole)


@pytest.mark.parametrize(
    "schema",
    [
        "{",
        "[1]",
        '{"type": "record", "name": "E", "fields": []}',
        '{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}',
    ],
)
def test_refused_schemas(schema: str) -> None:
    with pytest.raises(SchemaError):
        AvroCodec(schema)


def test_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    values = column([b"\0\0\0\0\x07x", None, b"\x01\0\0\0\x07", b"\0\0", b"\0\xff\0\0\0x"])
    validity, offsets, data = values.buffers()
    for frame_ids in (module.frame_ids, _pure_avro.frame_ids):
        ids = memoryview(frame_ids(validity, offsets, data, 0, 5)).cast("B").cast("i")
        assert list(ids) == [7, -1, -2, -2, -2]
