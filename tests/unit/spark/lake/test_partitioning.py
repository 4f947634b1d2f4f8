"""Parts of tables, compared with pyiceberg's own transforms."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import transforms
from pyiceberg.types import BinaryType, DateType, LongType, StringType, TimestamptzType

from kaa.spark.lake.partitioning import (
    PartitionError,
    Term,
    bucket_hash,
    check_terms,
    divide,
    folder_of,
    parse_terms,
)

TIMES = [
    datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 0, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    None,
]


def test_terms() -> None:
    terms = parse_terms("day(timestamp), bucket(16, key),country")
    assert terms == (
        Term("day", "timestamp"),
        Term("bucket", "key", 16),
        Term("identity", "country"),
    )
    assert [str(one) for one in terms] == ["day(timestamp)", "bucket(16, key)", "country"]
    assert [one.name for one in terms] == ["timestamp_day", "key_bucket", "country"]
    assert parse_terms("  ") == ()


@pytest.mark.parametrize("text", ["day()", "week(x)", "bucket(key)", "day(2, x)", "a b", "(x)"])
def test_refused_terms(text: str) -> None:
    with pytest.raises(PartitionError):
        parse_terms(text)


def test_terms_must_fit_columns() -> None:
    schema: Any = pa.schema([("a", pa.int32()), ("l", pa.list_(pa.int32()))])
    for text in ("day(a)", "b", "l"):
        with pytest.raises(PartitionError):
            check_terms(parse_terms(text), schema)


@pytest.mark.parametrize("name", ["year", "month", "day", "hour"])
def test_times_as_iceberg_divides_them(name: str) -> None:
    batch: Any = pa.RecordBatch.from_pydict(
        {"t": pa.array(TIMES, pa.timestamp("us", tz="UTC")), "n": pa.array(range(4))}
    )
    transform: Any = getattr(transforms, f"{name.capitalize()}Transform")()
    theirs = transform.transform(TimestamptzType())
    found = {}
    for part, rows in divide(batch, (Term(name, "t"),)):
        for row in rows.column("n").to_pylist():
            found[row] = part[0]
    expected = [
        None if one is None else theirs(int((one - TIMES[2]).total_seconds()) * 1_000_000)  # type: ignore[operator]
        for one in TIMES
    ]
    assert [found[row] for row in range(4)] == expected


def test_dates() -> None:
    batch: Any = pa.RecordBatch.from_pydict({"d": pa.array([date(1970, 1, 3)])})
    assert [part for part, _ in divide(batch, parse_terms("day(d), hour(d)"))] == [(2, 48)]


@pytest.mark.parametrize(
    ("value", "kind", "theirs"),
    [
        (b"\x00key", BinaryType(), b"\x00key"),
        ("käse", StringType(), "käse"),
        (-5, LongType(), -5),
        (date(2024, 2, 29), DateType(), 19782),
        (TIMES[0], TimestamptzType(), 1709251199000000),
    ],
)
def test_buckets_as_iceberg_has_them(value: Any, kind: Any, theirs: Any) -> None:
    transform: Any = transforms.BucketTransform(16)
    assert (bucket_hash(value) & 0x7FFFFFFF) % 16 == transform.transform(kind)(theirs)


def test_what_has_no_bucket() -> None:
    for value in (True, 1.5, Decimal(1)):
        with pytest.raises(PartitionError):
            bucket_hash(value)


def test_rows_keep_their_order_in_each_part() -> None:
    batch: Any = pa.RecordBatch.from_pydict(
        {
            "k": pa.array([b"a", b"b", None, b"a"], pa.binary()),
            "c": pa.array(["x", "x", "y", "x"]),
            "n": pa.array(range(4)),
        }
    )
    found = {
        part: rows.column("n").to_pylist() for part, rows in divide(batch, parse_terms("k, c"))
    }
    assert found == {(b"a", "x"): [0, 3], (b"b", "x"): [1], (None, "y"): [2]}
    assert [rows.num_rows for _, rows in divide(batch, ())] == [4]


def test_folders() -> None:
    terms = parse_terms("day(t), hour(t), month(t), year(t), k, c")
    assert folder_of(terms, (19782, 474791, 649, 54, b"\x00", "a/b")) == (
        "t_day=2024-02-29/t_hour=2024-02-29-23/t_month=2024-02/t_year=2024/k=00/c=a%2Fb"
    )
    assert folder_of(parse_terms("c"), (None,)) == "c=__HIVE_DEFAULT_PARTITION__"
