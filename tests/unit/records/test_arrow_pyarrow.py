"""pyarrow batches made of fetched batches and turned into batches to send."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kaa.records import BatchBuilder, CompressionType, InvalidRecordError, RecordBatch, iter_records
from kaa.records.arrow import ColumnReader, Columns
from kaa.records.arrow_encode import encode
from kaa.records.arrow_pyarrow import key_partitions, record_batch, row_columns
from tests.unit.records.arrow_twins import KERNELS, Kernel, use

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


SPARK: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS,
}


@pytest.fixture(params=KERNELS, ids=lambda kernel: kernel.name, autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    chosen: Kernel = request.param
    use(chosen, monkeypatch)
    return chosen


def fetched() -> bytes:
    builder = BatchBuilder(base_offset=5, compression_type=CompressionType.LZ4)
    builder.append(1_000, b"k", b"v", (("h", b"1"), ("h", None)))
    builder.append(1_001, None, None)
    return bytes(builder.build())


def test_a_fetch_becomes_a_batch_with_the_schema_of_the_spark_connector() -> None:
    reader = ColumnReader(fetched(), partition=3, timestamp_unit="us")
    batch = record_batch(reader.read(), topic="orders")
    batch.validate(full=True)
    assert batch.schema == pa.schema(SPARK)
    rows: list[dict[str, Any]] = batch.to_pylist()
    assert [row.pop("timestamp").timestamp() for row in rows] == [1.0, 1.001]
    common = {"topic": "orders", "partition": 3, "timestampType": 0}
    headers = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert rows == [
        {**common, "key": b"k", "value": b"v", "offset": 5, "headers": headers},
        {**common, "key": None, "value": None, "offset": 6, "headers": None},
    ]


def test_a_batch_has_only_the_columns_that_were_read() -> None:
    columns = ColumnReader(fetched(), partition=3).read(Columns.VALUE | Columns.OFFSET)
    assert record_batch(columns).schema.names == ["value", "offset"]


def test_no_rows_are_a_batch_too() -> None:
    batch = record_batch(ColumnReader(b"", partition=0).read(), topic="orders")
    batch.validate(full=True)
    assert batch.num_rows == 0


def rows_to_write() -> pa.RecordBatch:
    headers = [[{"key": "a", "value": b"1"}], None, [], [{"key": "é", "value": None}], None, None]
    return pa.record_batch(
        {
            "key": pa.array([b"k", None, b"", b"kk", b"x", b"y"], pa.binary()),
            "value": pa.array(["v", "", None, "vv", "ü", "z" * 99], pa.string()),
            "headers": pa.array(headers, HEADERS),
            "timestamp": pa.array([5, None, 7, 8, 9, 10], pa.timestamp("ms", tz="UTC")),
            "ignored": pa.array([1.5] * 6),
        }
    )


def written(batch: pa.RecordBatch, **options: Any) -> list[tuple[object, ...]]:
    encoded = encode(row_columns(batch), 1_000, batch_bytes_max=10_000, **options)
    return [
        (record.key, record.value, record.headers, record.timestamp)
        for piece in encoded.batches
        for record in iter_records(RecordBatch(piece.data))
    ]


EXPECTED: list[tuple[object, ...]] = [
    (b"k", b"v", (("a", b"1"),), 5),
    (None, b"", (), 1_000),
    (b"", None, (), 7),
    (b"kk", b"vv", (("é", None),), 8),
    (b"x", "ü".encode(), (), 9),
    (b"y", b"z" * 99, (), 10),
]


@pytest.mark.parametrize(("first", "count"), [(0, 6), (1, 4), (3, 1), (5, 1), (6, 0), (2, 4)])
def test_slices_are_written_as_they_are_seen(first: int, count: int) -> None:
    assert written(rows_to_write().slice(first, count)) == EXPECTED[first : first + count]


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.large_binary(), pa.binary(), pa.string_view(), pa.binary_view()]
)
def test_byte_strings_of_any_type_are_written(kind: pa.DataType) -> None:
    batch = rows_to_write()
    batch = batch.set_column(1, "value", batch.column("value").cast(pa.binary()).cast(kind))
    assert written(batch) == EXPECTED
    assert written(batch.slice(2)) == EXPECTED[2:]


def test_dictionaries_and_nulls_are_written() -> None:
    batch = pa.record_batch(
        {
            "key": pa.nulls(3),
            "value": pa.array(["a", "b", "a"]).dictionary_encode(),
        }
    )
    assert [row[:2] for row in written(batch)] == [(None, b"a"), (None, b"b"), (None, b"a")]


def test_large_lists_of_headers_are_written() -> None:
    kind = pa.large_list(pa.struct([("value", pa.large_binary()), ("key", pa.large_string())]))
    headers = pa.array([None, [{"key": "a", "value": b"b"}]], kind)
    batch = pa.record_batch({"value": pa.array([b"", b""]), "headers": headers})
    assert written(batch.slice(1)) == [(None, b"", (("a", b"b"),), 1_000)]


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("us", 10**6), ("ns", 10**9)])
def test_timestamps_of_any_unit_become_milliseconds(unit: Any, factor: int) -> None:
    timestamps = pa.array([None, 3 * factor], pa.timestamp(unit))
    batch = pa.record_batch({"value": pa.array([b"", b""]), "timestamp": timestamps})
    assert [row[3] for row in written(batch)] == [1_000, 3_000]


def test_integers_are_milliseconds() -> None:
    batch = pa.record_batch({"value": pa.array([b""]), "timestamp": pa.array([42])})
    assert [row[3] for row in written(batch)] == [42]


def test_rows_choose_their_partitions() -> None:
    batch = pa.record_batch({"value": pa.array([b"0", b"1", b"2"]), "partition": [1, 0, 1]})
    encoded = encode(row_columns(batch), 0, batch_bytes_max=1_000, partition_count=2)
    assert [(piece.partition, piece.row_count) for piece in encoded.batches] == [(0, 1), (1, 2)]
    large = pa.record_batch({"value": pa.array([b""]), "partition": pa.array([2**40])})
    with pytest.raises(InvalidRecordError, match="32 bits"):
        row_columns(large)


def test_keys_choose_partitions_as_java_does() -> None:
    keys = pa.array(["21", None, "foobar", "a-little-bit-long-string"])
    assert key_partitions(keys, 100, 7).to_pylist() == [40, 7, 66, 12]
    assert key_partitions(keys.slice(2), 100, 7).to_pylist() == [66, 12]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("value", pa.array([1.5])),
        ("headers", pa.array(["text"])),
        ("headers", pa.array([["text"]])),
        ("timestamp", pa.array(["text"])),
        ("partition", pa.array(["text"])),
    ],
)
def test_columns_of_a_wrong_type_are_refused(column: str, values: Any) -> None:
    columns = {"value": pa.array([b""]), column: values}
    with pytest.raises(TypeError):
        row_columns(pa.record_batch(columns))
