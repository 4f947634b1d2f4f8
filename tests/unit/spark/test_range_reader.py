"""A range of offsets as Arrow batches, from a running node."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

import kaa
from kaa.client import TopicPartition
from kaa.spark.errors import DataLossError, SparkSourceError, VersionMismatchError
from kaa.spark.range_reader import RangeReader, Task, check_version
from kaa.spark.schema import COLUMN_TYPES
from tests.support.both_clusters import bootstrap, kaa_node, topic_name
from tests.unit.spark.nodes import Topic

__all__ = ["bootstrap", "kaa_node", "topic_name"]


@pytest.fixture
def topic(bootstrap: str, topic_name: str) -> Topic:
    return Topic(bootstrap, topic_name)


def numbers(first: int, last: int) -> list[bytes | None]:
    return [b"%d" % number for number in range(first, last)]


def test_a_range_is_read_exactly(topic: Topic) -> None:
    topic.send(numbers(0, 100))
    assert topic.values(0, 100) == numbers(0, 100)
    assert topic.values(13, 57) == numbers(13, 57)
    assert topic.values(99, 100) == numbers(99, 100)


def test_columns_have_the_types_of_spark(topic: Topic) -> None:
    topic.send([b"a", None])
    columns = tuple(COLUMN_TYPES)
    (batch,) = topic.batches(0, 2, columns)
    assert batch.schema.names == list(columns)
    assert [str(one.type) for one in batch.schema] == [
        "binary",
        "binary",
        "string",
        "int32",
        "int64",
        "timestamp[us, tz=UTC]",
        "int32",
        "list<element: struct<key: string, value: binary>>",
    ]
    assert all(one.nullable for one in batch.schema)
    assert batch.column("value").to_pylist() == [b"a", None]
    (narrow,) = topic.batches(0, 2, ("topic",))
    assert narrow.to_pydict() == {"topic": [topic.name] * 2}


def test_a_batch_larger_than_what_is_fetched_at_once(topic: Topic) -> None:
    big: list[bytes | None] = [bytes([number]) * 300_000 for number in range(6)]
    topic.send(big)
    fetched = {"kafka.max.partition.fetch.bytes": "1000"}
    assert topic.values(0, 6, **fetched) == big


def test_offsets_that_the_log_has_lost(topic: Topic) -> None:
    topic.send(numbers(0, 50))
    topic.delete_before(20)
    with pytest.raises(DataLossError, match=r"offsets 5 to 19 of .* the log begins at 20"):
        topic.values(5, 40)
    with pytest.warns(UserWarning, match="failOnDataLoss is false"):
        assert topic.values(5, 40, failOnDataLoss="false") == numbers(20, 40)
    with pytest.warns(UserWarning, match="offsets 5 to 9"):
        assert topic.values(5, 10, failOnDataLoss="false") == []


def test_offsets_that_never_were(topic: Topic) -> None:
    topic.send(numbers(0, 5))
    with pytest.raises(DataLossError, match="ends before offset 50"):
        topic.values(50, 60)
    with pytest.raises(SparkSourceError, match="within 300 ms"):
        topic.values(0, 10, **{"kafkaConsumer.pollTimeoutMs": "300"})


def test_another_topic_of_the_same_name(topic: Topic) -> None:
    topic.send(numbers(0, 5))
    options = topic.options(failOnDataLoss="true")
    task = replace(topic.task(0, 5), topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(DataLossError, match="deleted and created again"):
        list(RangeReader(options, task, ("value",)).batches())


def test_a_partition_that_is_gone(topic: Topic) -> None:
    topic.send(numbers(0, 5))
    task = topic.task(0, 5)
    gone = replace(task, range=task.range._replace(partition=TopicPartition(topic.name, 7)))
    options = topic.options(**{"kafka.default.api.timeout.ms": "500"})
    with pytest.raises(DataLossError, match="is gone"):
        list(RangeReader(options, gone, ("value",)).batches())


def test_driver_and_executor_must_have_the_same_version(topic: Topic) -> None:
    check_version(kaa.__version__)
    with pytest.raises(VersionMismatchError, match=r"the driver has kaa 0\.0\.0"):
        check_version("0.0.0")
    task = Task(topic.task(0, 1).range, None, "0.0.0")
    with pytest.raises(VersionMismatchError):
        list(RangeReader(topic.options(), task, ("value",)).batches())


def test_no_work_is_done_per_record(topic: Topic) -> None:
    """Calls and lasting objects per million records, which decoding in Python would multiply."""
    count = 200_000
    topic.send(numbers(0, count))
    list(topic.batches(0, 10, ("value",)))
    calls = 0

    def count_calls(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    batches = []
    blocks = sys.getallocatedblocks()
    sys.setprofile(count_calls)
    try:
        batches = list(topic.batches(0, count, tuple(COLUMN_TYPES)))
    finally:
        sys.setprofile(None)
    blocks = sys.getallocatedblocks() - blocks
    assert sum(batch.num_rows for batch in batches) == count
    million = 1_000_000 / count
    assert calls * million < 50_000
    assert blocks * million < 50_000
