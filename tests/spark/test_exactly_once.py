"""The exactly-once sink in Spark: transactions of tasks, decisions, replays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.environment import wait_until
from tests.spark.conftest import Cluster, numbered, read, read_stream, run_to_end, values

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

COMMITTED = {"isolationLevel": "read_committed"}


def expected(first: int, last: int) -> list[bytes]:
    return sorted(value for _, value in numbered(first, last))


SECONDS_MAX = 90
# A driver that takes a batch back ends what its tasks left open. One that Spark has killed may
# write its last rows after that, unseen; then the timeout ends its transaction.
SHORT = {"transactionTimeoutMs": "20000"}
NOT_COMPLETE = ["Ongoing", "PrepareCommit", "PrepareAbort"]


def open_transactions(cluster: Cluster, query: str) -> list[str]:
    """Those whose markers are not all written, too."""
    found = cluster.admin(lambda one: one.list_transactions(states=NOT_COMPLETE))
    return [one.transactional_id for one in found if query in one.transactional_id]


def test_a_stream_writes_every_row_once_over_replays(
    spark: SparkSession, both_servers: str, topic: str, tmp_path: Path
) -> None:
    cluster = Cluster(both_servers)
    cluster.create(topic, 2)
    cluster.create(f"{topic}-out", 2)
    cluster.send(topic, numbered(0, 30))
    frame = read_stream(
        spark, both_servers, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=20
    ).select("key", "value")
    options = {
        "kafka.bootstrap.servers": both_servers,
        "topic": f"{topic}-out",
        "exactlyOnce": "true",
        "transactionalIdPrefix": topic,
    }

    def run() -> None:
        run_to_end(frame, tmp_path, "kaa", **options)

    def rows() -> list[bytes | None]:
        return values(read(spark, both_servers, subscribe=f"{topic}-out", **COMMITTED))

    run()
    assert rows() == expected(0, 30)
    # The last batch was done, and Spark died before it wrote that down: it is replayed.
    for name in ("1", ".1.crc"):
        (tmp_path / "commits" / name).unlink()
    run()
    assert rows() == expected(0, 30)
    # What the replay wrote was aborted, so that readers of everything see it.
    everything = values(read(spark, both_servers, subscribe=f"{topic}-out"))
    assert len(everything) > 30
    cluster.send(topic, numbered(30, 35))
    run()
    assert rows() == expected(0, 35)
    assert open_transactions(cluster, topic) == []
    # A run that was left behind notices it: here, one with an older checkpoint.
    for name in ("commits/2", "commits/1", "offsets/2"):
        for path in (tmp_path / name, (tmp_path / name).with_name(f".{Path(name).name}.crc")):
            path.unlink()
    with pytest.raises(Exception, match="batch 1 was superseded"):
        run()
    assert rows() == expected(0, 35)
    assert open_transactions(cluster, topic) == []


def write(frame: DataFrame, servers: str, **options: Any) -> None:
    frame.write.format("kaa").option("kafka.bootstrap.servers", servers).options(
        exactlyOnce=True, **options
    ).mode("append").save()


def test_a_batch_is_written_whole_or_not_at_all(
    spark: SparkSession, both_servers: str, topic: str
) -> None:
    cluster = Cluster(both_servers)
    cluster.create(topic, 2)
    good = spark.range(0, 1000, 1, 2).selectExpr("cast(id as string) value")
    bad = good.selectExpr("if(value = '900', raise_error('no'), value) value")
    options = {"topic": topic, "transactionalIdPrefix": topic}

    def count() -> int:
        return int(read(spark, both_servers, subscribe=topic, **COMMITTED).count())

    with pytest.raises(Exception, match="no"):
        write(bad, both_servers, **options, **SHORT)
    assert wait_until(lambda: not open_transactions(cluster, topic), SECONDS_MAX)
    assert count() == 0
    # When a write returns, readers see its rows.
    write(good, both_servers, **options)
    assert count() == 1000
    # With the name and number of the user, a repetition is noticed.
    named = options | {"txnAppId": topic, "txnVersion": "5"}
    write(good, both_servers, **named)
    write(good, both_servers, **named)
    assert count() == 2000
    write(good, both_servers, **(named | {"txnVersion": "4"}))
    assert open_transactions(cluster, topic) == []
    assert count() == 2000
    write(good, both_servers, **(named | {"txnVersion": "6"}))
    assert count() == 3000


def test_a_stream_that_fails_leaves_no_transaction_open(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    """One task fails when the other has written, so that Spark kills that one or forgets it."""
    cluster = Cluster(servers)
    cluster.create(topic, 2)
    cluster.create(f"{topic}-out", 2)
    for partition in (0, 1):
        cluster.send(topic, numbered(100 * partition, 100 * partition + 50), partition=partition)
    frame = read_stream(spark, servers, subscribe=topic, startingOffsets="earliest")
    options = {
        "kafka.bootstrap.servers": servers,
        "topic": f"{topic}-out",
        "exactlyOnce": "true",
        "transactionalIdPrefix": topic,
    }

    def slow_and_failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from threading import Event

        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        yield from batches
        if task.partitionId() == 1:
            # Whether the other one is done by then or not, the outcome must be the same.
            Event().wait(1)
            raise RuntimeError("as told")

    rows = frame.select("key", "value")
    bad = rows.mapInArrow(slow_and_failing, rows.schema)
    with pytest.raises(Exception, match="as told"):
        run_to_end(bad, tmp_path, "kaa", **options, **SHORT)
    assert wait_until(lambda: not open_transactions(cluster, topic), SECONDS_MAX)
    run_to_end(rows, tmp_path, "kaa", **options)
    written = values(read(spark, servers, subscribe=f"{topic}-out", **COMMITTED))
    assert written == sorted([*expected(0, 50), *expected(100, 150)])


def test_inside_foreach_batch_the_user_names_the_write(
    spark: SparkSession, both_servers: str, topic: str, tmp_path: Path
) -> None:
    cluster = Cluster(both_servers)
    cluster.create(topic)
    cluster.create(f"{topic}-out")
    cluster.send(topic, numbered(0, 5))
    frame = read_stream(spark, both_servers, subscribe=topic, startingOffsets="earliest")

    def start(folder: str, **options: Any) -> None:
        query = (
            frame.select("value")
            .writeStream.foreachBatch(
                lambda rows, number: write(
                    rows,
                    both_servers,
                    topic=f"{topic}-out",
                    **{name: number if value is None else value for name, value in options.items()},
                )
            )
            .option("checkpointLocation", str(tmp_path / folder))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)

    with pytest.raises(Exception, match="needs the options txnAppId and txnVersion"):
        start("without")
    start("with", txnAppId=topic, txnVersion=None)
    rows = values(read(spark, both_servers, subscribe=f"{topic}-out", **COMMITTED))
    assert rows == expected(0, 5)
