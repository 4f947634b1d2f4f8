"""Batch queries against a running node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.spark.conftest import Cluster, numbered, read, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_all_rows_with_all_columns(spark: SparkSession, both_servers: str, topic: str) -> None:
    cluster = Cluster(both_servers)
    cluster.create(topic, 3)
    cluster.send(
        topic,
        [(b"key", None), (None, b"value"), (b"", b"")],
        partition=1,
        first_timestamp_ms=1_700_000_000_123,
    )
    rows = read(spark, both_servers, subscribe=topic, includeHeaders=True).collect()
    assert [row.offset for row in rows] == [0, 1, 2]
    assert [(row.key, row.value) for row in rows] == [(b"key", None), (None, b"value"), (b"", b"")]
    assert {(row.topic, row.partition, row.timestampType) for row in rows} == {(topic, 1, 0)}
    assert [row.timestamp.timestamp() for row in rows] == [
        1_700_000_000.123,
        1_700_000_000.124,
        1_700_000_000.125,
    ]
    assert [row.headers for row in rows] == [None, None, None]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(spark: SparkSession, servers: str, topic: str, codec: str) -> None:
    cluster = Cluster(servers)
    cluster.create(topic)
    cluster.send(topic, numbered(0, 500), compression_type=codec)
    assert values(read(spark, servers, subscribe=topic)) == sorted(
        value for _, value in numbered(0, 500)
    )


def test_offsets_times_and_splits(spark: SparkSession, servers: str, topic: str) -> None:
    cluster = Cluster(servers)
    cluster.create(topic, 2)
    for partition in (0, 1):
        cluster.send(topic, numbered(0, 100), partition=partition, first_timestamp_ms=1_000_000)

    def offsets(**options: object) -> dict[int, tuple[int, int]]:
        frame = read(spark, servers, subscribe=topic, **options)
        found: dict[int, list[int]] = {}
        for row in frame.select("partition", "offset").collect():
            found.setdefault(row.partition, []).append(row.offset)
        return {partition: (min(some), max(some)) for partition, some in found.items()}

    both = json.dumps({topic: {"0": 10, "1": -2}})
    end = json.dumps({topic: {"0": 20, "1": -1}})
    assert offsets(startingOffsets=both, endingOffsets=end) == {0: (10, 19), 1: (0, 99)}
    assert offsets(startingTimestamp=1_000_040, endingTimestamp=1_000_060) == {
        0: (40, 59),
        1: (40, 59),
    }
    times = json.dumps({topic: {"0": 1_000_090, "1": 1_000_095}})
    assert offsets(startingOffsetsByTimestamp=times) == {0: (90, 99), 1: (95, 99)}
    for limits in ({"minPartitions": 8}, {"maxRecordsPerPartition": 30}):
        rows = read(spark, servers, subscribe=topic, **limits).selectExpr(
            "spark_partition_id() task", "partition", "offset"
        )
        found = rows.collect()
        assert len({row.task for row in found}) == 8
        assert len({(row.partition, row.offset) for row in found}) == len(found) == 200


def test_topics_by_list_pattern_and_partition(
    spark: SparkSession, servers: str, topic: str
) -> None:
    cluster = Cluster(servers)
    for number in range(2):
        cluster.create(f"{topic}.{number}", 2)
        for partition in range(2):
            cluster.send(f"{topic}.{number}", [(None, b"%d" % number)], partition=partition)
    both = ",".join(f"{topic}.{number}" for number in range(2))
    assert values(read(spark, servers, subscribe=both)) == [b"0", b"0", b"1", b"1"]
    pattern = topic.replace(".", "[.]") + "[.].*"
    assert values(read(spark, servers, subscribePattern=pattern)) == [b"0", b"0", b"1", b"1"]
    one = json.dumps({f"{topic}.1": [1]})
    assert values(read(spark, servers, assign=one)) == [b"1"]
    # A pattern that matches nothing is not an error.
    assert values(read(spark, servers, subscribePattern="no-such-topic-.*")) == []


def test_no_row_and_many_partitions(spark: SparkSession, servers: str, topic: str) -> None:
    cluster = Cluster(servers)
    cluster.create(topic, 100)
    assert values(read(spark, servers, subscribe=topic)) == []
    cluster.send(topic, numbered(0, 1000))
    assert len(values(read(spark, servers, subscribe=topic))) == 1000


def test_columns_and_schemas(spark: SparkSession, servers: str, topic: str) -> None:
    cluster = Cluster(servers)
    cluster.create(topic)
    cluster.send(topic, numbered(0, 3))
    frame = read(spark, servers, subscribe=topic, columns="offset,value")
    assert [tuple(row) for row in frame.collect()] == [(0, b"v0"), (1, b"v1"), (2, b"v2")]
    narrow = (
        spark.read.format("kaa")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .schema("topic string, key binary")
        .load()
    )
    assert [tuple(row) for row in narrow.collect()] == [
        (topic, b"k0"),
        (topic, b"k1"),
        (topic, b"k2"),
    ]
    with pytest.raises(Exception, match="the schema says string"):
        spark.read.format("kaa").options(subscribe=topic).option(
            "kafka.bootstrap.servers", servers
        ).schema("value string").load().collect()


def test_a_trimmed_topic(spark: SparkSession, servers: str, topic: str) -> None:
    from kaa.client import TopicPartition

    cluster = Cluster(servers)
    cluster.create(topic)
    cluster.send(topic, numbered(0, 100))
    whole = read(spark, servers, subscribe=topic)
    tolerant = read(
        spark,
        servers,
        subscribe=topic,
        failOnDataLoss=False,
        startingOffsets=json.dumps({topic: {"0": 5}}),
    )
    assert whole.count() == 100
    cluster.admin(lambda one: one.delete_records({TopicPartition(topic, 0): 40}))
    # What begins anew begins where the log does, and what was planned before has lost rows.
    assert read(spark, servers, subscribe=topic).count() == 60
    assert tolerant.count() == 60
    with pytest.raises(Exception, match=r"offsets 0 to 39 of .* are gone"):
        whole.count()


def test_what_is_wrong_is_told(spark: SparkSession, servers: str, topic: str) -> None:
    cluster = Cluster(servers)
    cluster.create(topic, 2)
    cluster.send(topic, numbered(0, 3), partition=0)
    cases = [
        (
            {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 1}})},
            "must name every partition",
        ),
        ({"subscribe": "no-such-topic"}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ({"subscribe": topic, "startingTimestamp": "99999999999999"}, "is at or after the time"),
        ({"subscribe": topic, "startingOffsets": "group:nobody"}, "group 'nobody' has no offset"),
        ({}, "one of the options subscribe"),
    ]
    for options, text in cases:
        with pytest.raises(Exception, match=text):
            read(spark, servers, **options).collect()
    late = read(
        spark,
        servers,
        subscribe=topic,
        startingTimestamp="99999999999999",
        startingOffsetsByTimestampStrategy="latest",
    )
    assert late.count() == 0


def test_the_offsets_of_a_group(spark: SparkSession, both_servers: str, topic: str) -> None:
    from kaa.client import TopicPartition
    from kaa.client.group.offsets import OffsetAndMetadata

    cluster = Cluster(both_servers)
    cluster.create(topic, 2)
    for partition in (0, 1):
        cluster.send(topic, numbered(0, 10), partition=partition)
    cluster.admin(
        lambda one: one.alter_group_offsets(topic, {TopicPartition(topic, 0): OffsetAndMetadata(7)})
    )
    start = f"group:{topic}"
    rows = read(
        spark, both_servers, subscribe=topic, startingOffsets=start, groupFallback="earliest"
    )
    assert rows.filter("partition = 0").count() == 3
    assert rows.filter("partition = 1").count() == 10
    rows = read(spark, both_servers, subscribe=topic, startingOffsets=start, groupFallback="latest")
    assert rows.count() == 3


def test_sql(spark: SparkSession, servers: str, topic: str) -> None:
    cluster = Cluster(servers)
    cluster.create(topic)
    cluster.send(topic, numbered(0, 5))
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW rows_of_topic USING kaa OPTIONS "
        f"(`kafka.bootstrap.servers` '{servers}', subscribe '{topic}')"
    )
    assert spark.sql("SELECT count(*) FROM rows_of_topic").collect()[0][0] == 5


def test_secrets_are_in_no_plan(spark: SparkSession, servers: str, topic: str) -> None:
    Cluster(servers).create(topic)
    frame = read(
        spark,
        servers,
        subscribe=topic,
        **{
            "kafka.sasl.jaas.config": "module required password='hush-hush';",
            "kafka.ssl.truststore.password": "hush-hush",
        },
    )
    assert frame.count() == 0
    execution = frame._jdf.queryExecution()
    text = execution.toString() + execution.logical().toString() + frame._jdf.toString()
    assert "kaa" in text
    assert "hush-hush" not in text
