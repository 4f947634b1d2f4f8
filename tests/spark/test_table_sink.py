"""Tables that queries write: every batch once, whatever is repeated."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.conftest import Cluster, numbered, read_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def table(spark: SparkSession, options: dict[str, str]) -> list[Any]:
    found = spark.read.format("kaa_table").options(**options).load()
    return sorted(tuple(row) for row in found.collect())


def write(frame: DataFrame, options: dict[str, str], checkpoint: Path, mode: str) -> None:
    query = (
        frame.writeStream.format("kaa_table")
        .options(**options)
        .option("checkpointLocation", str(checkpoint))
        .outputMode(mode)
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(200), "the query did not end"
    finally:
        query.stop()
    problem = query.exception()
    if problem is not None:
        raise problem


@pytest.mark.parametrize("layout", ["iceberg", "parquet"])
def test_a_stream_lands_once(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, layout: str
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic, 2)
    cluster.send(topic, numbered(0, 30))
    options = {"table": "t", "warehouse": str(tmp_path / "lake"), "layout": layout}
    frame = read_stream(
        spark, servers, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=10
    )
    rows = frame.selectExpr(
        "cast(value as string) as text", "partition", "named_struct('n', offset) as at"
    )
    checkpoint = tmp_path / "checkpoint"
    write(rows, {**options, "partitionBy": "partition"}, checkpoint, "append")
    expected = sorted(f"v{one}" for one in range(30))
    assert sorted(row[0] for row in table(spark, options)) == expected
    # The driver dies after the commit of a batch: Spark repeats it, and finds it there.
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda one: int(one.name))
    commits[-1].unlink()
    Path(commits[-1].parent, f".{commits[-1].name}.crc").unlink(missing_ok=True)
    cluster.send(topic, numbered(30, 40))
    write(rows, {**options, "partitionBy": "partition"}, checkpoint, "append")
    found = table(spark, options)
    assert sorted(row[0] for row in found) == sorted(f"v{one}" for one in range(40))
    assert not list((tmp_path / "lake").rglob("*dead_letters*"))
    # Another checkpoint would begin from the start: its rows are refused, not added again.
    shutil.rmtree(checkpoint)
    with pytest.raises(Exception, match="another checkpoint"):
        write(rows, {**options, "partitionBy": "partition"}, checkpoint, "append")
    assert table(spark, options) == found


def test_complete_mode_and_batches(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic, 1)
    options = {"table": "counts", "warehouse": str(tmp_path / "lake")}
    counts = (
        read_stream(spark, servers, subscribe=topic, startingOffsets="earliest")
        .selectExpr("cast(key as string) as who")
        .groupBy("who")
        .count()
    )
    cluster.send(topic, [(b"a", b"1"), (b"b", b"1")])
    write(counts, options, tmp_path / "checkpoint", "complete")
    cluster.send(topic, [(b"a", b"1")])
    write(counts, options, tmp_path / "checkpoint", "complete")
    assert table(spark, options) == [("a", 2), ("b", 1)]

    options = {"table": "plain", "warehouse": str(tmp_path / "lake")}
    frame = spark.createDataFrame([(1, "x")], "id int, text string")
    for _ in range(2):
        frame.write.format("kaa_table").mode("append").options(**options).save()
    assert table(spark, options) == [(1, "x"), (1, "x")]
    frame.write.format("kaa_table").mode("overwrite").options(**options).save()
    assert table(spark, options) == [(1, "x")]
    for version in (0, 0, 1):
        named = {**options, "txnAppId": "job", "txnVersion": str(version)}
        frame.write.format("kaa_table").mode("append").options(**named).save()
    assert len(table(spark, options)) == 3
