"""Values of records to columns: Avro and JSON, beside the usual way in Python.

The usual way parses each value to a dict (fastavro, json) and makes an Arrow table of the dicts.
One core, 10,000 orders of about 100 bytes per batch, as Spark takes them. The median of several
rounds counts.
"""

from __future__ import annotations

import io
import json
from statistics import median
from typing import Any

import fastavro
import pyarrow as pa

from benches.figure import Figure, round_microseconds
from kaa.spark.formats.avro import DECODER_NAME, AvroCodec
from kaa.spark.formats.json_schema import JsonCodec

ROWS = 10_000
UNIT = "million records/s"
FACTOR = 3.0
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "price", "type": ["null", "double"]},
        {"name": "paid", "type": "boolean"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "at_ms", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
    ],
}
JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string"},
        "price": {"type": ["null", "number"]},
        "paid": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "at_ms": {"type": "integer"},
        "note": {"type": ["null", "string"]},
    },
}


def run() -> list[Figure]:
    orders = [_order(number) for number in range(ROWS)]
    parsed = fastavro.parse_schema(SCHEMA)
    avro_values = [_encoded(order, parsed) for order in orders]
    json_values = [json.dumps(order).encode() for order in orders]
    avro_column: Any = pa.array(avro_values, pa.binary())
    json_column: Any = pa.array(json_values, pa.binary())
    avro_codec, json_codec = AvroCodec(json.dumps(SCHEMA)), JsonCodec(json.dumps(JSON_SCHEMA))

    def usual_avro() -> None:
        rows: list[Any] = [
            fastavro.schemaless_reader(io.BytesIO(value), parsed, None) for value in avro_values
        ]
        _checked(pa.Table.from_pylist(rows).num_rows)

    def usual_json() -> None:
        _checked(pa.Table.from_pylist([json.loads(value) for value in json_values]).num_rows)

    times = round_microseconds(
        {
            "avro": lambda: _checked(len(avro_codec.decode(avro_column).rows)),
            "fastavro": usual_avro,
            "json": lambda: _checked(len(json_codec.decode(json_column).rows)),
            "python json": usual_json,
        },
        rounds=7,
    )
    rounds = {name: [ROWS / one for one in values] for name, values in times.items()}
    rates = {name: median(values) for name, values in rounds.items()}
    size = sum(map(len, avro_values)) // ROWS
    return [
        Figure(
            f"Avro of {size} bytes ({DECODER_NAME}), 3 times fastavro and from_pylist wanted",
            rates["avro"],
            UNIT,
            {"fastavro + from_pylist": rates["fastavro"]},
            target=FACTOR * rates["fastavro"],
            rounds={"kaa": rounds["avro"], "fastavro + from_pylist": rounds["fastavro"]},
        ),
        Figure(
            f"JSON of {len(json_values[0])} bytes",
            rates["json"],
            UNIT,
            {"json + from_pylist": rates["python json"]},
            rounds={"kaa": rounds["json"], "json + from_pylist": rounds["python json"]},
        ),
    ]


def _order(number: int) -> dict[str, Any]:
    return {
        "id": number * 7_919,
        "customer": f"customer-{number % 997:05}",
        "price": None if number % 10 == 0 else number / 7,
        "paid": number % 3 == 0,
        "tags": ["new", "express"][: number % 3],
        "at_ms": 1_700_000_000_000 + number,
        "note": "as ordered by telephone, deliver in the morning" if number % 2 else None,
    }


def _encoded(order: dict[str, Any], schema: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, order)
    return out.getvalue()


def _checked(rows: int) -> None:
    if rows != ROWS:
        raise AssertionError(f"{rows} rows instead of {ROWS}")
