"""Rows as record batches, written to a running node and read back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kaa.records.partitioner import partition_of_key
from kaa.spark.errors import OptionError, RowError
from kaa.spark.options import sink_options
from kaa.spark.writing import RowWriter, check_columns
from tests.support.both_clusters import bootstrap, kaa_node, topic_name
from tests.unit.spark.nodes import Topic

__all__ = ["bootstrap", "kaa_node", "topic_name"]


@pytest.fixture
def topic(bootstrap: str, topic_name: str) -> Topic:
    return Topic(bootstrap, topic_name, partitions=3)


def write(topic: Topic, columns: dict[str, Any], **options: str) -> int:
    given = {"kafka.bootstrap.servers": topic.servers, "topic": topic.name} | options
    writer = RowWriter(sink_options(given))
    batch = pa.RecordBatch.from_pydict(columns)
    writer.write([batch.slice(0, 2), batch.slice(2)])
    return writer.row_count


def read(topic: Topic, partition: int, count: int) -> list[tuple[Any, Any]]:
    from kaa.spark.range_reader import RangeReader

    reader = RangeReader(topic.options(), topic.task(0, count, partition), ("key", "value"))
    return [
        row for batch in reader.batches() for row in zip(*batch.to_pydict().values(), strict=True)
    ]


def test_keys_decide_partitions_and_order_stays(topic: Topic) -> None:
    keys = [b"%d" % (number % 7) for number in range(1_000)]
    values = [b"%d" % number for number in range(1_000)]
    assert write(topic, {"key": pa.array(keys), "value": pa.array(values)}) == 1_000
    for partition in range(3):
        expected = [
            pair
            for pair in zip(keys, values, strict=True)
            if partition_of_key(pair[0], 3) == partition
        ]
        assert read(topic, partition, len(expected)) == expected


@pytest.mark.parametrize("acks", ["all", "1"])
def test_rows_with_a_partition_of_their_own(topic: Topic, acks: str) -> None:
    columns = {
        "value": pa.array(["a", "b", None, "d"]),
        "partition": pa.array([2, 0, 2, 2], pa.int32()),
    }
    write(topic, columns, **{"kafka.acks": acks})
    assert read(topic, 2, 3) == [(None, b"a"), (None, None), (None, b"d")]
    assert read(topic, 0, 1) == [(None, b"b")]


def test_topics_of_rows(bootstrap: str, topic_name: str) -> None:
    made = [Topic(bootstrap, f"{topic_name}-{number}") for number in range(2)]
    names = [made[number % 2].name for number in range(6)]
    columns: dict[str, Any] = {
        "topic": pa.array(names),
        "value": pa.array([b"%d" % n for n in range(6)]),
    }
    options = sink_options({"kafka.bootstrap.servers": bootstrap})
    RowWriter(options).write([pa.RecordBatch.from_pydict(columns)])
    assert [value for _, value in read(made[0], 0, 3)] == [b"0", b"2", b"4"]
    assert [value for _, value in read(made[1], 0, 3)] == [b"1", b"3", b"5"]
    columns["topic"] = pa.array([None, *names[1:]])
    with pytest.raises(RowError, match="a row has no topic"):
        RowWriter(options).write([pa.RecordBatch.from_pydict(columns)])


def test_rows_that_cannot_be_written(topic: Topic) -> None:
    with pytest.raises(RowError, match="which has 3"):
        write(topic, {"value": pa.array(["a"]), "partition": pa.array([3], pa.int32())})
    with pytest.raises(RowError, match="at most 1000 bytes"):
        write(topic, {"value": pa.array(["x" * 2_000])}, **{"kafka.max.request.size": "1000"})


def test_tasks_of_a_process_share_a_producer_id(topic: Topic) -> None:
    def producer(rows: dict[str, Any]) -> tuple[int, int]:
        given = {"kafka.bootstrap.servers": topic.servers, "topic": topic.name}
        writer = RowWriter(sink_options(given | {"kafka.client.id": topic.name}))
        writer.write([pa.RecordBatch.from_pydict(rows)])
        return writer._producer

    rows: dict[str, Any] = {"value": pa.array(["a"]), "partition": pa.array([0], pa.int32())}
    first = producer(rows)
    assert [producer(rows) for _ in range(3)] == [first] * 3
    assert len(read(topic, 0, 4)) == 4
    # One that failed may have left something behind, so its id is not used again.
    with pytest.raises(RowError):
        producer({"value": pa.array(["a"]), "partition": pa.array([9], pa.int32())})
    assert producer(rows) != first


@pytest.mark.parametrize(
    ("fields", "topic", "text"),
    [
        ([("key", "string")], "t", "no column 'value'"),
        ([("value", "string")], None, "no topic is named"),
        ([("value", "int")], "t", "'value' must be string or binary, it is int"),
        ([("value", "binary"), ("partition", "bigint")], "t", "must be int"),
        ([("value", "binary"), ("headers", "string")], "t", "must be array"),
        ([("value", "binary"), ("topic", "int")], None, "must be string"),
    ],
)
def test_columns_that_are_refused(
    fields: list[tuple[str, str]], topic: str | None, text: str
) -> None:
    with pytest.raises(OptionError, match=text):
        check_columns(fields, topic)


def test_columns_that_are_taken() -> None:
    headers = "array<struct<key:string,value:binary>>"
    check_columns(
        [("value", "varchar(5)"), ("key", "binary"), ("topic", "string"), ("headers", headers),
         ("partition", "int"), ("other", "map<string,int>")],
        None,
    )  # fmt: skip
