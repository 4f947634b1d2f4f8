"""Streams of tables and reads of earlier states, by the classes that Spark calls; no Java runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from kaa.spark.lake.compaction import compact, plan_compaction
from kaa.spark.lake.driver import open_table
from kaa.spark.lake.kaa_table.reader import TableReader
from kaa.spark.lake.kaa_table.stream import TableStreamReader
from kaa.spark.lake.settings import LakeSettings, lake_settings
from kaa.spark.lake.table import LakeError
from kaa.spark.lake.table_state import table_options
from kaa.testing import Broker, Topic
from tests.spark.lake.landing import land

SCHEMA = StructType([StructField("offset", LongType()), StructField("value", BinaryType())])


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


class Stream:
    """What Spark does with a stream: batch after batch, by a checkpoint."""

    def __init__(self, settings: LakeSettings, **options: str) -> None:
        self._options = {**table_options(settings), **options}
        self.checkpoint: dict[str, Any] = {}

    def run(self, *, is_limited: bool = True) -> list[list[bytes]]:
        """A run with AvailableNow, in a new process; the values of each batch."""
        reader = TableStreamReader(self._options, SCHEMA)
        reader.prepareForTriggerAvailableNow()
        limit = reader.getDefaultReadLimit() if is_limited else ReadAllAvailable()
        batches = []
        start = self.checkpoint or reader.initialOffset()
        while (end := reader.latestOffset(start, limit)) != start:
            batches.append(self.rows(start, end))
            start = end
        self.checkpoint = start
        return batches

    def rows(self, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
        reader = TableStreamReader(self._options, SCHEMA)
        parts = reader.partitions(start, end)
        found = [row for one in parts for batch in reader.read(one) for row in batch.to_pylist()]
        return [row["value"] for row in sorted(found, key=lambda row: row["offset"])]


def make(broker: Broker, tmp_path: Path, **options: Any) -> tuple[Topic, LakeSettings]:
    topic = broker.topic(partitions=1)
    given = {"topic": topic.name, "warehouse": str(tmp_path / "lake"), **options}
    return topic, lake_settings({**given, "kafka.bootstrap.servers": broker.bootstrap_servers})


def test_what_is_added_is_read_once(broker: Broker, tmp_path: Path) -> None:
    topic, settings = make(broker, tmp_path)
    for value in ("a", "b"):
        topic.seed([value])
        land(settings)
    whole = Stream(settings, maxFilesPerTrigger="1")
    first = whole.run()
    assert sorted(one for batch in first for one in batch) == [b"a", b"b"]
    assert [len(one) for one in first] == [1, 1]
    assert whole.run() == []
    latest = Stream(settings, startingVersion="latest")
    assert latest.run() == [[]]
    table: Any = open_table(settings)
    table.load()
    second = table.history()[0].version
    assert compact(table, plan_compaction(table)) == 1
    for value in ("c", "d", "e"):
        topic.seed([value])
        land(settings)
    assert [one for one in whole.run() if one] == [[b"c"], [b"d"], [b"e"]]
    assert latest.run() == [[b"c", b"d", b"e"]]
    behind = Stream(settings, startingVersion=second, maxBytesPerTrigger="1")
    assert [one for one in behind.run() if one] == [[b"b"], [b"c"], [b"d"], [b"e"]]
    assert Stream(settings, startingVersion=second, maxFilesPerTrigger="1").run(
        is_limited=False
    ) == [[b"b", b"c", b"d", b"e"]]
    assert Stream(settings, fromOffsets='{"0": 3}').run() == [[b"d", b"e"]]
    with pytest.raises(LakeError, match="startingVersion is earliest"):
        Stream(settings, startingVersion="9").run()
    with pytest.raises(LakeError, match="maxFilesPerTrigger is a number"):
        TableStreamReader({**table_options(settings), "maxFilesPerTrigger": "0"}, SCHEMA)
    reader = TableStreamReader({**table_options(settings), "maxFilesPerTrigger": "7"}, SCHEMA)
    assert reader.getDefaultReadLimit() == ReadMaxFiles(7)


def test_a_stream_that_begins_before_the_first_row(broker: Broker, tmp_path: Path) -> None:
    topic, settings = make(broker, tmp_path)
    open_table(settings).load()
    stream = Stream(settings, startingVersion="latest")
    stream.run()
    topic.seed(["a"])
    land(settings)
    assert [one for one in stream.run() if one] == [[b"a"]]


def test_upserts_are_changes(broker: Broker, tmp_path: Path) -> None:
    topic, settings = make(broker, tmp_path, mode="upsert", buckets=1)
    topic.seed([("k", "a"), ("j", "b")])
    land(settings)
    stream, added = Stream(settings), Stream(settings, changes="added")
    assert stream.run() == added.run() == [[b"a", b"b"]]
    topic.seed([("k", "c")])
    land(settings)
    with pytest.raises(LakeError, match=r"is an overwrite.*option changes=skip"):
        stream.run()
    assert added.run() == [[b"c"]]
    with pytest.raises(LakeError, match="changes is one of fail, skip, added"):
        TableStreamReader({**table_options(settings), "changes": "all"}, SCHEMA)


def values(settings: LakeSettings, **options: str) -> list[bytes]:
    reader = TableReader({**table_options(settings), **options}, SCHEMA)
    found = [
        row
        for one in reader.partitions()
        for batch in reader.read(one)
        for row in batch.to_pylist()
    ]
    return sorted(row["value"] for row in found)


def test_earlier_states(broker: Broker, tmp_path: Path) -> None:
    topic, settings = make(broker, tmp_path)
    topic.seed(["a"])
    land(settings)
    table: Any = open_table(settings)
    first = table.data.handle.current_snapshot()
    with table.data.handle.manage_snapshots() as update:
        update.create_tag(first.snapshot_id, "audited")
        update.create_branch(first.snapshot_id, "work")
    topic.seed(["b"])
    land(settings)
    for options in (
        {"snapshotId": str(first.snapshot_id)},
        {"version": str(first.snapshot_id)},
        {"asOfTimestamp": str(first.timestamp_ms)},
        {"tag": "audited"},
        {"branch": "work"},
    ):
        assert values(settings, **options) == [b"a"], options
    assert values(settings, branch="main") == [b"a", b"b"]
    assert values(settings, asOfTimestamp="2100-01-01") == [b"a", b"b"]
    for options, message in (
        ({"tag": "work"}, "has no tag work"),
        ({"branch": "none"}, "has no branch none"),
        ({"snapshotId": "1"}, "has no snapshot 1"),
        ({"asOfTimestamp": "1"}, "had no snapshot yet at 1"),
        ({"asOfTimestamp": "noon"}, "noon is not a time"),
        ({"tag": "audited", "branch": "work"}, "branch and tag both say"),
    ):
        with pytest.raises(LakeError, match=message):
            values(settings, **options)
