"""Closed segments from the files of a node on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from kaa.client import TopicPartition
from kaa.client.sync import Producer
from kaa.spark.brokers import brokers_of
from kaa.spark.local_segments import Chunk, _Segment, local_batches
from kaa.spark.lookup import Lookup
from kaa.spark.range_reader import RangeReader
from tests.oracle.environment import wait_until
from tests.support.both_clusters import bootstrap, kaa_node, topic_name
from tests.unit.spark.nodes import Topic

__all__ = ["bootstrap", "kaa_node", "topic_name"]

LOCAL = {"localFiles": "true"}
SEGMENT_BYTES = "1048576"


@pytest.fixture
def topic(bootstrap: str, topic_name: str) -> Topic:
    """About five segments of two thousand records."""
    made = Topic(bootstrap, topic_name, segment_bytes=SEGMENT_BYTES)
    made.send(values(0, 10_000), max_request_size="50000")
    return made


def values(first: int, last: int) -> list[bytes | None]:
    return [(b"%d " % number).ljust(500, b"x") for number in range(first, last)]


def chunks(topic: Topic, start: int, end: int, **options: str) -> list[Chunk]:
    given = topic.options(**LOCAL, **options)
    return list(local_batches(brokers_of(given.settings), given, topic.task(start, end)))


def test_rows_are_the_same_as_fetched_ones(topic: Topic) -> None:
    local = chunks(topic, 0, 10_000)
    # Most came from files, and the active segment did not.
    assert 6_000 < local[-1].next_offset < 10_000
    for start, end in ((0, 10_000), (3_333, 3_334), (1_999, 8_001), (9_990, 10_000)):
        assert topic.values(start, end, **LOCAL) == values(start, end)


def test_what_is_lost_is_told_as_for_fetches(topic: Topic) -> None:
    topic.delete_before(5_000)
    assert chunks(topic, 0, 10_000) == []
    with pytest.raises(Exception, match="offsets 0 to 4999"):
        topic.values(0, 10_000, **LOCAL)
    assert topic.values(5_000, 10_000, **LOCAL) == values(5_000, 10_000)


def test_files_of_another_topic_or_cluster_are_left_alone(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kaa.spark import local_segments

    assert chunks(topic, 0, 10)
    given = topic.options(**LOCAL)
    brokers = brokers_of(given.settings)
    task = topic.task(0, 10)
    other = task.__class__(task.range, "AAAAAAAAAAAAAAAAAAAAAQ", task.version)
    assert list(local_batches(brokers, given, other)) == []
    original = local_segments._properties

    def elsewhere(path: Path, separator: str) -> dict[str, str]:
        return original(path, separator) | {"cluster.id": "another"}

    monkeypatch.setattr(local_segments, "_properties", elsewhere)
    assert list(local_batches(brokers, given, task)) == []


def test_a_file_that_vanishes_while_it_is_read(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    original = _Segment.containing.__func__  # type: ignore[attr-defined]  # A class method.

    def containing(cls: Any, folder: Path, offset: int) -> _Segment | None:
        opened.append(offset)
        if len(opened) == 2:
            raise FileNotFoundError(str(folder))
        found: _Segment | None = original(cls, folder, offset)
        return found

    monkeypatch.setattr(_Segment, "containing", classmethod(containing))
    assert topic.values(0, 10_000, **LOCAL) == values(0, 10_000)
    assert len(opened) == 2


def test_retention_while_files_are_read(topic: Topic) -> None:
    """Rows whose read has begun come from the open file; what follows is lost, and reported."""
    given = topic.options(
        **LOCAL, failOnDataLoss="false", **{"kafka.max.partition.fetch.bytes": "100000"}
    )
    reader = RangeReader(given, topic.task(0, 10_000), ("value",)).batches()
    seen = next(reader).column("value").to_pylist()
    topic.delete_before(9_000)
    with pytest.warns(UserWarning, match="are gone"):
        rest = list(reader)
    seen += [value for batch in rest for value in batch.column("value").to_pylist()]
    expected = values(0, 10_000)
    assert seen[:50] == expected[:50]
    assert seen[-1_000:] == expected[-1_000:]
    assert seen == sorted(seen, key=lambda value: int(bytes(value or b"").split()[0]))


def test_aborted_transactions_are_passed_over(bootstrap: str, topic_name: str) -> None:
    topic = Topic(bootstrap, topic_name, segment_bytes=SEGMENT_BYTES)
    random = Random(7)
    expected: list[bytes | None] = []
    producers = [
        Producer(topic.settings | {"transactional.id": f"{topic_name}-{number}"})
        for number in range(3)
    ]
    try:
        for producer in producers:
            producer.__enter__()
            producer.init_transactions()
        for round_number in range(60):
            producer = producers[random.randrange(3)]
            rows = values(round_number * 100, round_number * 100 + 100)
            is_committed = random.random() < 0.5
            write_transaction(producer, topic, rows, is_committed=is_committed)
            if is_committed:
                expected += rows
    finally:
        for producer in producers:
            producer.__exit__(None, None, None)
    topic.send(values(0, 2_500))
    expected += values(0, 2_500)
    partition = TopicPartition(topic.name, 0)
    end = Lookup(topic.options()).latest([partition])[partition]
    committed = {"isolationLevel": "read_committed", "kafka.max.partition.fetch.bytes": "200000"}
    assert len(chunks(topic, 0, end, **committed)) > 5
    assert topic.values(0, end, **committed) == expected
    assert topic.values(0, end, **committed, **LOCAL) == expected
    for start in range(0, 6_000, 777):
        fetched = topic.values(start, start + 1_000, **committed)
        assert topic.values(start, start + 1_000, **committed, **LOCAL) == fetched


def write_transaction(
    producer: Producer, topic: Topic, rows: list[bytes | None], *, is_committed: bool
) -> None:
    producer.begin_transaction()
    for row in rows:
        producer.send(topic.name, row, partition=0)
    # An abort drops what has not been sent, and there would be nothing to pass over.
    producer.flush()
    if is_committed:
        producer.commit_transaction()
    else:
        producer.abort_transaction()


@pytest.fixture
def compacting(bootstrap: str, topic_name: str) -> Topic:
    return Topic(
        bootstrap,
        topic_name,
        segment_bytes=SEGMENT_BYTES,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.01",
    )


def latest(batches: Iterator[pa.RecordBatch]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for batch in batches:
        rows = batch.to_pydict()
        found.update(zip(rows["key"], rows["value"], strict=True))
    return found


def test_compaction_while_files_are_read(compacting: Topic) -> None:
    """Whatever state of the files is met, the newest value of every key is there."""
    for number in range(5):
        compacting.send(values(number * 10_000, number * 10_000 + 3_000))
    end = 15_000
    expected = {b"key-%d" % number: value for number, value in enumerate(values(40_000, 43_000))}
    counts: list[int] = []

    def is_compacted() -> bool:
        batches = list(compacting.batches(0, end, ("key", "value"), **LOCAL))
        assert latest(iter(batches)) == expected
        counts.append(sum(batch.num_rows for batch in batches))
        return counts[-1] < counts[0] // 2

    is_compacted()
    if not wait_until(is_compacted, 40):
        pytest.fail(f"nothing was compacted: {counts}")
