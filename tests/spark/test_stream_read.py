"""Streaming queries: where they begin, how far a batch goes, and what survives a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaa.client import TopicPartition
from tests.spark.conftest import Cluster, numbered, read_stream, run_to_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Table:
    """Where a stream writes its rows, and what it has by now."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self.rows = folder / "rows"
        self.checkpoint = folder / "checkpoint"

    def run(self, frame: DataFrame) -> list[dict[str, Any]]:
        return run_to_end(frame, self.checkpoint, "parquet", path=str(self.rows))

    def values(self) -> list[bytes]:
        if not list(self.rows.glob("*.parquet")):
            return []
        rows = self._spark.read.parquet(str(self.rows)).select("value").collect()
        return sorted(bytes(row.value) for row in rows)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    return Table(spark, tmp_path)


def expected(*ranges: tuple[int, int]) -> list[bytes]:
    return sorted(value for first, last in ranges for _, value in numbered(first, last))


def batch_rows(progress: list[dict[str, Any]]) -> list[int]:
    return [one["numInputRows"] for one in progress if one["numInputRows"]]


def test_limited_batches_and_lag(
    spark: SparkSession, both_servers: str, topic: str, table: Table
) -> None:
    cluster = Cluster(both_servers)
    cluster.create(topic, 2)
    for partition, count in ((0, 90), (1, 30)):
        cluster.send(topic, numbered(0, count), partition=partition)
    frame = read_stream(
        spark, both_servers, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=60
    )
    progress = table.run(frame)
    assert batch_rows(progress) == [60, 60]
    first = progress[0]["sources"][0]
    assert first["endOffset"][topic] == {"0": 45, "1": 15}
    # The lag of each partition is the difference to the latest offset; the sum is there as well.
    assert first["latestOffset"][topic] == {"0": 90, "1": 30}
    assert [one["sources"][0]["latestOffset"]["@lag"] for one in progress] == [60, 0]
    assert all(one["sources"][0]["latestOffset"]["@bytes"] > 60 for one in progress)
    assert table.values() == expected((0, 90), (0, 30))


def test_a_restart_reads_what_is_new(
    spark: SparkSession, servers: str, topic: str, table: Table
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic)
    cluster.send(topic, numbered(0, 10))
    frame = read_stream(spark, servers, subscribe=topic, startingOffsets="earliest")
    assert batch_rows(table.run(frame)) == [10]
    assert batch_rows(table.run(frame)) == []
    cluster.send(topic, numbered(10, 15))
    assert batch_rows(table.run(frame)) == [5]
    assert table.values() == expected((0, 15))


def test_latest_is_pinned_before_there_is_any_data(
    spark: SparkSession, servers: str, topic: str, table: Table
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic)
    cluster.send(topic, numbered(0, 10))
    frame = read_stream(spark, servers, subscribe=topic)
    # The query is stopped before a record has come, and still remembers where it began.
    assert batch_rows(table.run(frame)) == []
    cluster.send(topic, numbered(10, 15))
    assert batch_rows(table.run(frame)) == [5]
    assert table.values() == expected((10, 15))


def test_a_first_batch_that_failed_loses_nothing(
    spark: SparkSession, servers: str, topic: str, table: Table
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic)
    cluster.send(topic, numbered(0, 10))
    frame = read_stream(spark, servers, subscribe=topic)
    table.run(frame)
    # As if the first batch had been planned and never done, while the end of the topic moved.
    for name in ("commits/0", "commits/.0.crc"):
        (table.checkpoint / name).unlink(missing_ok=True)
    cluster.send(topic, numbered(10, 20))
    table.run(frame)
    assert table.values() == expected((10, 20))


def test_a_checkpoint_of_sparks_own_connector_goes_on(
    spark: SparkSession, servers: str, topic: str, table: Table
) -> None:
    if "kafka" not in (spark.conf.get("spark.jars", "") or ""):
        pytest.skip("Spark's own connector could not be fetched")
    cluster = Cluster(servers)
    cluster.create(topic, 2)
    cluster.send(topic, numbered(0, 20))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    table.run(read_stream(spark, servers, format="kafka", **options))
    cluster.send(topic, numbered(20, 30))
    assert batch_rows(table.run(read_stream(spark, servers, **options))) == [10]
    assert table.values() == expected((0, 30))


def test_partitions_may_be_added(
    spark: SparkSession, servers: str, topic: str, table: Table
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic)
    cluster.send(topic, numbered(0, 10))
    frame = read_stream(spark, servers, subscribe=topic, startingOffsets="earliest")
    table.run(frame)
    cluster.admin(lambda one: one.create_partitions({topic: 3}))
    cluster.send(topic, numbered(10, 15), partition=2)
    assert batch_rows(table.run(frame)) == [5]
    assert table.values() == expected((0, 15))


def test_a_topic_that_was_created_again_is_noticed(
    spark: SparkSession, servers: str, topic: str, table: Table
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic)
    cluster.send(topic, numbered(0, 5))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    table.run(read_stream(spark, servers, **options))
    cluster.admin(lambda one: one.delete_topics([topic]))
    cluster.create(topic)
    cluster.send(topic, numbered(10, 20))
    with pytest.raises(Exception, match="was deleted and created again"):
        table.run(read_stream(spark, servers, **options))
    table.run(read_stream(spark, servers, failOnDataLoss=False, **options))
    assert table.values() == expected((0, 5), (10, 20))


def test_partitions_and_topics_may_change_while_a_query_runs(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic)
    cluster.send(topic, numbered(0, 10))
    frame = read_stream(
        spark,
        servers,
        subscribe=topic,
        startingOffsets="earliest",
        failOnDataLoss=False,
        # For a moment there will be no such topic.
        **{"fetchOffset.numRetries": 200, "fetchOffset.retryIntervalMs": 100},
    )
    seen: list[bytes] = []

    def keep(rows: DataFrame, _: int) -> None:
        seen.extend(bytes(row.value) for row in rows.select("value").collect())

    query = (
        frame.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    try:
        wait_for(lambda: sorted(seen) == expected((0, 10)))
        cluster.admin(lambda one: one.create_partitions({topic: 3}))
        cluster.send(topic, numbered(10, 20), partition=2)
        wait_for(lambda: sorted(seen) == expected((0, 20)))
        cluster.admin(lambda one: one.delete_topics([topic]))
        cluster.create(topic)
        cluster.send(topic, numbered(20, 30))
        wait_for(lambda: sorted(seen) == expected((0, 30)))
        assert query.isActive
    finally:
        query.stop()


def test_bytes_per_batch(spark: SparkSession, servers: str, topic: str, table: Table) -> None:
    cluster = Cluster(servers)
    cluster.create(topic)
    for number in range(10):
        sent = [(None, b"%d-%d" % (number, row) + b"x" * 1000) for row in range(10)]
        cluster.send(topic, sent, batch_size="1000000", linger_ms="50")
    frame = read_stream(
        spark, servers, subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger=30_000
    )
    rows = batch_rows(table.run(frame))
    assert sum(rows) == 100
    assert len(rows) >= 3
    # An estimate, but not far off: 30 kB are about 29 rows.
    assert max(rows) <= 45


def test_a_batch_waits_for_enough_rows(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic)
    cluster.send(topic, numbered(0, 5))
    frame = read_stream(
        spark, servers, subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=10
    )
    seen: list[int] = []
    # Without this, a query that only waits tells of it every ten seconds.
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "200")
    try:
        query = (
            frame.writeStream.foreachBatch(lambda rows, _: seen.append(rows.count()))
            .option("checkpointLocation", str(tmp_path))
            .trigger(processingTime="200 milliseconds")
            .start()
        )
    finally:
        spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")
    try:
        wait_for(lambda: seen == [5])
        cluster.send(topic, numbered(5, 9))
        wait_for(lambda: len(query.recentProgress) > 3)
        assert seen == [5]
        cluster.send(topic, numbered(9, 20))
        wait_for(lambda: sum(seen) == 20)
        assert seen == [5, 15]
    finally:
        query.stop()


def wait_for(condition: Any) -> None:
    from tests.oracle.environment import wait_until

    assert wait_until(condition, 120)


def test_progress_is_published_to_a_group(
    spark: SparkSession, both_servers: str, topic: str, table: Table
) -> None:
    cluster = Cluster(both_servers)
    cluster.create(topic)
    cluster.send(topic, numbered(0, 10))
    group = f"{topic}-progress"

    def committed() -> int | None:
        found = cluster.admin(lambda one: one.list_group_offsets(group))
        offset = found.get(TopicPartition(topic, 0))
        return None if offset is None else offset.offset

    frame = read_stream(
        spark,
        both_servers,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=6,
        commitGroup=group,
    )
    # Alone, the source is one batch late.
    table.run(frame)
    assert committed() == 6
    # A listener is exact.
    from kaa.spark import watch

    stop = watch(spark, {"kafka.bootstrap.servers": both_servers})
    try:
        cluster.send(topic, numbered(10, 12))
        table.run(frame)
        wait_for(lambda: committed() == 12)
    finally:
        stop()


def test_the_own_sink_publishes_progress_exactly(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic)
    cluster.create(f"{topic}-out")
    cluster.send(topic, numbered(0, 10))
    frame = read_stream(
        spark, servers, subscribe=topic, startingOffsets="earliest", commitGroup=topic
    ).select("key", "value")
    options = {"kafka.bootstrap.servers": servers, "topic": f"{topic}-out"}
    run_to_end(frame, tmp_path, "kaa", **options)
    found = cluster.admin(lambda one: one.list_group_offsets(topic))
    assert found[TopicPartition(topic, 0)].offset == 10


def test_a_group_with_members_is_refused(
    spark: SparkSession, servers: str, topic: str, table: Table
) -> None:
    from confluent_kafka import Consumer

    cluster = Cluster(servers)
    cluster.create(topic)
    member = Consumer({"bootstrap.servers": servers, "group.id": topic})
    try:
        member.subscribe([topic])
        wait_for(lambda: member.poll(0.2) is not None or member.assignment())
        frame = read_stream(spark, servers, subscribe=topic, commitGroup=topic)
        with pytest.raises(Exception, match="has members"):
            table.run(frame)
    finally:
        member.close()


def test_secrets_are_in_no_checkpoint(
    spark: SparkSession, servers: str, topic: str, table: Table
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic)
    cluster.send(topic, numbered(0, 3))
    secret = {"kafka.sasl.jaas.config": "module required password='hush-hush';"}
    frame = read_stream(spark, servers, subscribe=topic, startingOffsets="earliest", **secret)
    progress = table.run(frame)
    assert "hush-hush" not in json.dumps(progress)
    files = [path for path in table.checkpoint.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"hush-hush" in path.read_bytes()]
