"""Tables by Spark jobs, and read by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaa.spark.lake import running
from kaa.spark.lake.compaction import compact, plan_compaction
from kaa.spark.lake.driver import LakeDriver, RoundReport, open_table
from kaa.spark.lake.maintenance import plan_orphans, remove_orphans
from kaa.spark.lake.running import SparkRunner
from kaa.spark.lake.settings import LakeSettings, lake_settings
from kaa.spark.lake.table import LakeError
from kaa.spark.lake.table_state import table_options, with_live_tail
from tests.spark.conftest import Cluster, numbered, run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def settings_of(servers: str, topic: str, tmp_path: Path, **options: Any) -> LakeSettings:
    given = {"topic": topic, "table": "orders", "warehouse": str(tmp_path / "lake")}
    return lake_settings({**given, "kafka.bootstrap.servers": servers, **options})


def land(spark: SparkSession, settings: LakeSettings) -> list[RoundReport]:
    reports: list[RoundReport] = []
    LakeDriver(open_table(settings), SparkRunner(spark), is_once=True, report=reports.append).run()
    return reports


@pytest.mark.parametrize("layout", ["iceberg", "parquet"])
def test_a_topic_by_spark_and_back(
    spark: SparkSession,
    servers: str,
    topic: str,
    tmp_path: Path,
    layout: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kaa.spark.lake.driver.LAKE_TASK_ROWS_MIN", 100)
    cluster = Cluster(servers)
    cluster.create(topic, 2)
    cluster.send(topic, numbered(0, 1000))
    settings = settings_of(servers, topic, tmp_path, layout=layout, partitionBy="day(timestamp)")
    assert sum(one.rows for one in land(spark, settings)) == 1000
    cluster.send(topic, numbered(1000, 1200))
    stored = spark.read.format("kaa_table").options(**table_options(settings)).load()
    assert stored.count() == 1000
    both = with_live_tail(spark, settings)
    assert both.columns == stored.columns
    found = sorted(bytes(row.value) for row in both.select("value").collect())
    assert found == sorted(value for _, value in numbered(0, 1200))
    assert sum(one.rows for one in land(spark, settings)) == 200
    early = (
        spark.read.format("kaa_table")
        .options(**table_options(settings))
        .option("atOffsets", '{"0": 7, "1": 3}')
        .load()
    )
    assert early.count() == 10
    assert early.select("offset").distinct().count() == 7


def test_the_latest_of_each_key_with_the_tail(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic, 1)
    cluster.send(topic, [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    settings = settings_of(servers, topic, tmp_path, mode="upsert", buckets=2)
    land(spark, settings)
    cluster.send(topic, [(b"a", b"2"), (b"b", None), (b"d", b"2")])
    both = with_live_tail(spark, settings)
    # A second frame leaves the first as it was.
    cluster.admin(lambda one: one.create_partitions({topic: 2}))
    cluster.send(topic, [(b"c", b"moved"), (b"d", None)], partition=1)
    moved = with_live_tail(spark, settings)
    assert {bytes(row.key): bytes(row.value) for row in both.collect()} == {
        b"a": b"2",
        b"c": b"1",
        b"d": b"2",
    }
    # The key has a lower offset in its new partition, and a later time.
    assert {bytes(row.key): bytes(row.value) for row in moved.collect()} == {
        b"a": b"2",
        b"c": b"moved",
    }


def test_json_that_nobody_has_described(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    """Columns grow in rounds by Spark, and the tail has those of the table."""
    cluster = Cluster(servers)
    cluster.create(topic, 2)
    cluster.send(topic, [(None, b'{"id": %d}' % number) for number in range(10)])
    settings = settings_of(servers, topic, tmp_path, valueFormat="json")
    land(spark, settings)
    cluster.send(topic, [(None, b'{"id": 10, "name": "new"}')])
    assert [(one.rows, one.dead_letters) for one in land(spark, settings)] == [(1, 0)]
    cluster.send(topic, [(None, b'{"id": 11, "name": 5, "more": 1}'), (None, b'{"id": 0.5}')])
    both = with_live_tail(spark, settings)
    assert both.columns[-2:] == ["id", "name"]
    found = both.where("id > 8").orderBy("id").select("id", "name").collect()
    assert list(map(tuple, found)) == [(9, None), (10, "new"), (11, "5")]
    assert both.count() == 12


def test_a_round_that_fails_is_told(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic, 1)
    cluster.send(topic, numbered(0, 5))

    def fail(*_: Any) -> Any:
        raise OSError("the disk is full")

    monkeypatch.setattr(running.SparkRunner, "map", fail)
    with pytest.raises(LakeError, match="5 rounds in a row failed: the disk is full"):
        land(spark, settings_of(servers, topic, tmp_path))


def test_upserts_and_care_by_spark(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    """Merges, compaction and the search for orphans are jobs; a stream reads what was added."""
    cluster = Cluster(servers)
    cluster.create(topic, 1)
    cluster.send(topic, numbered(0, 200))
    settings = settings_of(servers, topic, tmp_path, mode="upsert", buckets=2)
    land(spark, settings)
    cluster.send(topic, [(b"k%d" % number, b"new") for number in range(20)] + [(b"k20", None)])
    land(spark, settings)
    table: Any = open_table(settings)
    table.load()
    assert any(one.deletes for one in table.files())
    expected = dict(numbered(21, 200))
    expected |= {b"k%d" % number: b"new" for number in range(20)}

    def found() -> dict[bytes, bytes]:
        frame = spark.read.format("kaa_table").options(**table_options(settings)).load()
        rows = frame.select("key", "value").collect()
        assert len(rows) == len(expected)
        return {bytes(row.key): bytes(row.value) for row in rows}

    assert found() == expected
    runner = SparkRunner(spark)
    assert compact(table, plan_compaction(table), runner) == 2
    assert not any(one.deletes for one in table.files())
    assert found() == expected
    table.prepare(table.schema())
    stray = Path(table.files()[0].url.removeprefix("file://")).parent / "stray.parquet"
    stray.write_bytes(b"nobody's")
    orphans = plan_orphans(table, older_than_seconds=-1, runner=runner)
    assert [one.url.rpartition("/")[2] for one in orphans] == ["stray.parquet"]
    assert remove_orphans(table, orphans, runner) == 1
    stream = (
        spark.readStream.format("kaa_table")
        .options(**table_options(settings), changes="added")
        .option("startingVersion", table.history()[0].version)
        .load()
    )
    copy = {"table": "copy", "warehouse": str(tmp_path / "lake")}
    run_to_end(stream, tmp_path / "checkpoint", "kaa_table", **copy)
    copied = spark.read.format("kaa_table").options(**copy).load()
    assert {bytes(row.value) for row in copied.collect()} == {b"new"}
    assert copied.count() == 20
