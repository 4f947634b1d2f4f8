"""Tables by Spark jobs, and read by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaa.spark.lake import running
from kaa.spark.lake.driver import LakeDriver, RoundReport, open_table
from kaa.spark.lake.reading import table_options, with_live_tail
from kaa.spark.lake.running import SparkRunner
from kaa.spark.lake.settings import LakeSettings, lake_settings
from kaa.spark.lake.table import LakeError
from tests.spark.conftest import Cluster, numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def settings_of(servers: str, topic: str, tmp_path: Path, **options: Any) -> LakeSettings:
    given = {"topic": topic, "table": "orders", "warehouse": str(tmp_path / "lake")}
    return lake_settings({**given, "kafka.bootstrap.servers": servers, **options})


def land(spark: SparkSession, settings: LakeSettings) -> list[RoundReport]:
    reports: list[RoundReport] = []
    LakeDriver(
        settings, open_table(settings), SparkRunner(spark), is_once=True, report=reports.append
    ).run()
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
    assert {bytes(row.key): bytes(row.value) for row in both.collect()} == {
        b"a": b"2",
        b"c": b"1",
        b"d": b"2",
    }


def test_a_round_that_fails_is_told(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic, 1)
    cluster.send(topic, numbered(0, 5))

    def fail(*_: Any) -> Any:
        raise OSError("the disk is full")

    monkeypatch.setattr(running.SparkRunner, "run", fail)
    with pytest.raises(LakeError, match="5 rounds in a row failed: the disk is full"):
        land(spark, settings_of(servers, topic, tmp_path))
