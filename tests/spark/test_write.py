"""Writes, batch and streaming: columns, partitions, and what is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaa.spark import session
from tests.spark.conftest import Cluster, numbered, read, read_stream, run_to_end, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.oracle import Oracle


def write(frame: DataFrame, servers: str, mode: str = "append", **options: Any) -> None:
    writer = frame.write.format("kaa").option("kafka.bootstrap.servers", servers)
    writer.options(**options).mode(mode).save()


def test_all_columns(spark: SparkSession, both_servers: str, topic: str) -> None:
    cluster = Cluster(both_servers)
    cluster.create(f"{topic}-a", 3)
    cluster.create(f"{topic}-b", 3)
    headers = "array<struct<key:string,value:binary>>"
    schema = f"topic string, key string, value binary, partition int, headers {headers}"
    rows = [
        (f"{topic}-a", "k", b"v1", 2, [("h", b"1"), ("h", None)]),
        (f"{topic}-b", None, None, 1, None),
        (f"{topic}-a", "k2", b"v2", None, []),
    ]
    write(spark.createDataFrame(rows, schema), both_servers)
    back = read(spark, both_servers, subscribe=f"{topic}-a,{topic}-b", includeHeaders=True)
    found = {
        (row.topic, row.key, row.value, row.headers and tuple(map(tuple, row.headers)))
        for row in back.collect()
    }
    assert found == {
        (f"{topic}-a", b"k", b"v1", (("h", b"1"), ("h", None))),
        (f"{topic}-b", None, None, None),
        (f"{topic}-a", b"k2", b"v2", None),
    }
    placed = {row.value: row.partition for row in back.filter(f"topic = '{topic}-a'").collect()}
    assert placed[b"v1"] == 2


@pytest.mark.oracle
def test_equal_keys_go_where_java_sends_them(
    spark: SparkSession, servers: str, topic: str, oracle: Oracle
) -> None:
    Cluster(servers).create(topic, 7)
    frame = spark.range(500).selectExpr("concat('key-', id) key", "cast(id as string) value")
    write(frame, servers, topic=topic)
    rows = read(spark, servers, subscribe=topic).select("key", "partition").collect()
    assert len(rows) == 500
    expected = oracle.partitions([bytes(row.key) for row in rows], 7)
    assert [row.partition for row in rows] == expected


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(spark: SparkSession, servers: str, topic: str, codec: str) -> None:
    Cluster(servers).create(topic, 2)
    frame = spark.range(20_000).selectExpr("repeat(cast(id as string), 20) value")
    write(frame, servers, topic=topic, **{"kafka.compression.type": codec})
    back = read(spark, servers, subscribe=topic)
    assert back.selectExpr("count(*)", "count(distinct value)").collect()[0][:] == (20_000, 20_000)
    assert frame.selectExpr("cast(value as binary)").exceptAll(back.select("value")).count() == 0


def test_the_option_is_stronger_than_the_column(
    spark: SparkSession, servers: str, topic: str
) -> None:
    Cluster(servers).create(topic)
    frame = spark.createDataFrame([("elsewhere", "v")], "topic string, value string")
    write(frame, servers, topic=topic)
    assert values(read(spark, servers, subscribe=topic)) == [b"v"]


def test_what_is_refused(spark: SparkSession, servers: str, topic: str) -> None:
    Cluster(servers).create(topic, 2)
    good = spark.createDataFrame([("k", "v")], "key string, value string")
    number = spark.createDataFrame([(1,)], "value int")
    nowhere = spark.createDataFrame([(None, "v")], "topic string, value string")
    beyond = spark.createDataFrame([(2, "v")], "partition int, value string")
    cases: list[tuple[DataFrame, dict[str, str], str]] = [
        (good.select("key"), {"topic": topic}, "no column 'value'"),
        (good, {}, "no topic is named"),
        (number, {"topic": topic}, "must be string or binary, it is int"),
        (nowhere, {}, "a row has no topic"),
        (beyond, {"topic": topic}, "which has 2"),
        (good, {"topic": topic, "kafka.value.serializer": "x"}, "is not supported"),
    ]
    for frame, options, text in cases:
        with pytest.raises(Exception, match=text):
            write(frame, servers, **options)
    with pytest.raises(Exception, match="cannot be overwritten"):
        write(good, servers, mode="overwrite", topic=topic)
    assert values(read(spark, servers, subscribe=topic)) == []


def test_large_and_small_records(spark: SparkSession, servers: str, topic: str) -> None:
    Cluster(servers).create(topic, 2)
    frame = spark.range(6).selectExpr("repeat('x', cast(300000 * id as int)) value")
    with pytest.raises(Exception, match="a record may have at most"):
        write(frame, servers, topic=topic)
    write(frame.filter("length(value) < 1000000"), servers, topic=topic)
    sizes = {len(value or b"") for value in values(read(spark, servers, subscribe=topic))}
    assert sizes >= {0, 300_000, 600_000, 900_000}


def test_a_stream_from_topic_to_topic(
    spark: SparkSession, both_servers: str, topic: str, tmp_path: Path
) -> None:
    cluster = Cluster(both_servers)
    cluster.create(topic, 2)
    cluster.create(f"{topic}-out", 2)
    cluster.send(topic, numbered(0, 100))
    frame = read_stream(
        spark, both_servers, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=40
    ).select("key", "value")
    options = {"kafka.bootstrap.servers": both_servers, "topic": f"{topic}-out"}
    run_to_end(frame, tmp_path, "kaa", **options)
    back = read(spark, both_servers, subscribe=f"{topic}-out")
    assert values(back) == sorted(value for _, value in numbered(0, 100))
    # The same keys, so the same partitions.
    first = read(spark, both_servers, subscribe=topic).select("key", "partition")
    assert first.exceptAll(back.select("key", "partition")).count() == 0


def test_a_stream_that_a_thread_starts(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    Cluster(servers).create(topic, 1)
    folder = tmp_path / "in"
    spark.range(3).selectExpr("cast(id as string) value").write.text(str(folder))

    def start() -> None:
        assert session("local[2]", app_name="tests") is spark
        frame = spark.readStream.text(str(folder))
        run_to_end(frame, tmp_path, "kaa", **{"kafka.bootstrap.servers": servers, "topic": topic})

    with ThreadPoolExecutor(1) as executor:
        executor.submit(start).result()
    assert values(read(spark, servers, subscribe=topic)) == [b"0", b"1", b"2"]
