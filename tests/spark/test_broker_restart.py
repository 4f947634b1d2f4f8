"""A broker that is killed in the middle of a job and comes back: nothing is lost, nothing doubled.

Each job waits in the middle of its rows, which are far more than what lies in buffers, until the
broker is dead. It then goes on, and meets no broker at all until that has started again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.oracle.environment import wait_until
from tests.spark.conftest import Cluster, read, read_stream
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Rows = list[tuple[bytes, str]]

ROWS = 600
VALUE_BYTES = 64 * 1024
# Each of the two tasks fetches its rows in dozens of steps, most of them from the new broker.
FETCH_BYTES = 8 * VALUE_BYTES
ROWS_BEFORE = 40


def rows(first: int, last: int) -> list[tuple[bytes, bytes]]:
    return [
        (b"k%d" % number, (b"%d " % number).ljust(VALUE_BYTES, b"."))
        for number in range(first, last)
    ]


def expected(count: int) -> Rows:
    return sorted((key, sha256(value).hexdigest()) for key, value in rows(0, count))


def found(frame: DataFrame) -> Rows:
    hashed = frame.selectExpr("key", "sha2(value, 256) AS hash").collect()
    return sorted((bytes(row.key), row.hash) for row in hashed)


def waiting(folder: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Hands on rows; after some of them says so by a file, and waits for another."""
    name = str(folder)

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time
        from pathlib import Path
        from threading import Event

        deadline = time.monotonic() + 120
        pause = Event()
        row_count = 0
        for batch in batches:
            yield batch
            row_count += batch.num_rows
            if row_count >= ROWS_BEFORE:
                Path(name, "begun").touch()
                while not Path(name, "dead").exists():
                    assert time.monotonic() < deadline, "the broker was not killed"
                    pause.wait(0.02)

    return pass_on


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A node of its own, since it is killed."""
    with BrokerProcess(tmp_path / "node") as running:
        yield running


def restart_meanwhile(node: BrokerProcess, folder: Path, is_over: Callable[[], bool]) -> None:
    """Kills the node when a job waits, and starts it again when that goes on."""
    try:
        begun = folder / "begun"
        assert wait_until(lambda: begun.exists() or is_over(), 120), "no row was read"
        assert not is_over(), "it did not wait"
        node.kill()
    finally:
        (folder / "dead").touch()
    node.start()


def test_a_batch_is_read_whole(
    spark: SparkSession, node: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    cluster = Cluster(node.bootstrap_servers)
    cluster.create(topic, 2)
    cluster.send(topic, rows(0, ROWS))
    small = {"subscribe": topic, "kafka.max.partition.fetch.bytes": FETCH_BYTES}
    frame = read(spark, cluster.servers, **small).select("key", "value")
    frame = frame.mapInArrow(waiting(tmp_path), frame.schema)
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(found, frame)
        restart_meanwhile(node, tmp_path, job.done)
        assert job.result(180) == expected(ROWS)


def test_a_stream_is_copied_exactly_once(
    spark: SparkSession, node: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    cluster = Cluster(node.bootstrap_servers)
    cluster.create(topic, 2)
    cluster.create(f"{topic}-copy", 2)
    cluster.send(topic, rows(0, ROWS))
    options = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.max.partition.fetch.bytes": FETCH_BYTES,
        # The process of a new query has never seen a broker, and is asked to be patient.
        "fetchOffset.numRetries": 120,
        "fetchOffset.retryIntervalMs": 500,
    }
    frame = read_stream(spark, cluster.servers, **options).select("key", "value")
    frame = frame.mapInArrow(waiting(tmp_path), frame.schema)
    sink: dict[str, str | bool] = {
        "kafka.bootstrap.servers": cluster.servers,
        "topic": f"{topic}-copy",
        "exactlyOnce": True,
    }

    def start() -> StreamingQuery:
        writer = frame.writeStream.format("kaa").options(**sink).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    def copied() -> Rows:
        committed = {"subscribe": f"{topic}-copy", "isolationLevel": "read_committed"}
        return found(read(spark, cluster.servers, **committed))

    # In the middle of the tasks, and so of their transactions.
    query = start()
    restart_meanwhile(node, tmp_path, lambda: not query.isActive)
    assert query.awaitTermination(180), "the query did not end"
    assert copied() == expected(ROWS)
    # And a query that begins while there is no broker.
    cluster.send(topic, rows(ROWS, ROWS + 50))
    node.kill()
    query = start()
    node.start()
    assert query.awaitTermination(180), "the query did not end"
    assert copied() == expected(ROWS + 50)
