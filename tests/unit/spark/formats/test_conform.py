"""Columns of several versions of a schema as one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kaa.spark.formats.conform import conform, list_of, nullable, struct_of, widened


def test_fields_by_name_with_defaults() -> None:
    rows: Any = pa.array([{"b": 1, "gone": 2}, None, {"b": None, "gone": 1}])
    kind = struct_of({"a": pa.string(), "b": pa.int64(), "c": pa.int32()})
    found = conform(rows, kind, {("c",): 7})
    assert found.type == kind
    assert found.to_pylist() == [{"a": None, "b": 1, "c": 7}, None, {"a": None, "b": None, "c": 7}]


def test_nested_parts_and_slices() -> None:
    rows: Any = pa.array(
        [[{"x": 1}], None, [{"x": 2}, None]], pa.list_(pa.struct([("x", pa.int32())]))
    )
    kind = list_of(struct_of({"x": pa.int64(), "y": pa.string()}))
    found = conform(rows.slice(1), kind)
    found.validate(full=True)
    assert found.to_pylist() == [None, [{"x": 2, "y": None}, None]]
    maps: Any = pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32()))
    found = conform(maps, pa.map_(pa.string(), pa.int64()))
    assert found.to_pylist() == [[("k", 1)], None]
    structs: Any = pa.array([{"x": 1}, {"x": 2}, None])
    assert conform(structs.slice(1), struct_of({"x": pa.int64()})).to_pylist() == [{"x": 2}, None]


def test_what_does_not_fit_raises() -> None:
    with pytest.raises(pa.ArrowInvalid):
        conform(pa.array(["text"]), pa.int64())


def test_types_that_spark_takes() -> None:
    kind: Any = pa.struct(
        [
            pa.field("a", pa.large_string(), nullable=False),
            pa.field("b", pa.list_(pa.field("item", pa.uint32(), nullable=False))),
            pa.field("c", pa.timestamp("ns", tz="UTC")),
            pa.field("d", pa.map_(pa.string(), pa.binary(4))),
            pa.field("e", pa.duration("ns")),
        ]
    )
    assert nullable(kind) == struct_of(
        {
            "a": pa.string(),
            "b": list_of(pa.int64()),
            "c": pa.timestamp("us", tz="UTC"),
            "d": pa.map_(pa.string(), pa.binary()),
            "e": pa.int64(),
        }
    )
    times: Any = pa.array([5], pa.duration("ns"))
    assert conform(times, pa.int64()).to_pylist() == [5]


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.int32(), pa.float32(), pa.float64()),
        (pa.int64(), pa.float64(), None),
        (pa.string(), pa.int32(), None),
        (pa.decimal128(5, 2), pa.decimal128(9, 2), pa.decimal128(9, 2)),
        (pa.decimal128(5, 2), pa.decimal128(9, 3), None),
        (list_of(pa.int32()), list_of(pa.int64()), list_of(pa.int64())),
        (
            struct_of({"a": pa.int32()}),
            struct_of({"a": pa.int64(), "b": pa.string()}),
            struct_of({"a": pa.int64(), "b": pa.string()}),
        ),
        (struct_of({"a": pa.int32()}), struct_of({"a": pa.string()}), None),
    ],
)
def test_widening(first: Any, second: Any, both: Any) -> None:
    assert widened(first, second) == both
