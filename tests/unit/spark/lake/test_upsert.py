"""The last record of each key, out of old rows and news."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from kaa.spark.lake.upsert import latest_per_key, news_schema

FIELDS: Any = [
    ("key", pa.binary()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
    ("value", pa.binary()),
]
SCHEMA: Any = pa.schema(FIELDS)
START = datetime(2026, 1, 1, tzinfo=UTC)


def row(key: bytes, offset: int, value: bytes | None, partition: int = 0) -> dict[str, Any]:
    return {
        "key": key,
        "partition": partition,
        "offset": offset,
        "timestamp": START + timedelta(seconds=offset),
        "value": value,
    }


def merged(old: list[dict[str, Any]], news: list[dict[str, Any]]) -> dict[bytes, Any]:
    marked = [{**one, "kaa_tombstone": one["value"] is None} for one in news]
    found = latest_per_key(
        pa.Table.from_pylist(old, SCHEMA), pa.Table.from_pylist(marked, news_schema(SCHEMA))
    )
    assert found.schema.names == SCHEMA.names
    return {one["key"]: one["value"] for one in found.to_pylist()}


def test_last_offset_wins_and_tombstones_delete() -> None:
    old = [row(b"a", 0, b"0"), row(b"b", 1, b"1"), row(b"c", 2, b"2")]
    news = [row(b"b", 4, None), row(b"a", 5, b"5"), row(b"a", 3, b"3"), row(b"d", 6, None)]
    assert merged(old, news) == {b"a": b"5", b"c": b"2"}
    assert merged([], []) == {}
    assert merged([], [row(b"b", 4, None), row(b"b", 5, b"back")]) == {b"b": b"back"}


def test_a_key_that_changed_its_partition() -> None:
    # The offset in the new partition is lower, its time is later.
    late = {**row(b"a", 0, b"new", partition=1), "timestamp": START + timedelta(hours=1)}
    assert merged([row(b"a", 50, b"old")], [late]) == {b"a": b"new"}


def test_like_a_dict() -> None:
    chance = random.Random(5)
    for _ in range(20):
        expected: dict[bytes, bytes] = {}
        old: list[dict[str, Any]] = []
        news = []
        for offset in range(chance.randrange(60)):
            key = b"k%d" % chance.randrange(8)
            value = chance.choice([None, b"v%d" % offset])
            news.append(row(key, offset, value))
            if value is None:
                expected.pop(key, None)
            else:
                expected[key] = value
        chance.shuffle(news)
        assert merged(old, news) == expected
