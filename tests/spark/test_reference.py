"""The same queries through Spark's own connector: more than a million rows, equal in every column.

The rows have headers and nulls, come in every codec, from committed and aborted transactions, and
from a topic that was compacted. Each partition is compared by its count and by two sums over a
hash of all columns, which no row can miss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kaa.spark.brokers import brokers_of
from kaa.spark.once.tasks import TaskNames, write_transaction
from kaa.spark.once.transactions import end_transaction
from kaa.spark.options import sink_options
from kaa.spark.writing import RowWriter
from tests.oracle.environment import wait_until
from tests.spark.conftest import Cluster, read, read_stream, run_to_end
from tests.spark.reference import reference_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.oracle

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ROWS_PER_CODEC = 180_000
BATCH_ROWS = 20_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture(scope="module", autouse=True)
def connector() -> None:
    if not reference_jars():
        pytest.skip("Spark's own connector could not be fetched")


def batch(first: int, count: int = BATCH_ROWS) -> pa.RecordBatch:
    """Rows of every kind: with and without key, value and headers, small and large."""
    numbers = range(first, first + count)
    keys = [None if number % 7 == 0 else b"key-%d" % (number % 5_000) for number in numbers]
    values = [None if number % 11 == 0 else b"%d-" % number * (number % 13) for number in numbers]
    some = [("one", b"1"), ("two", None), ("", b"")]
    headers = [some[: number % 4] for number in numbers]
    columns: dict[str, Any] = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array(headers, HEADERS),
    }
    return pa.RecordBatch.from_pydict(columns)


@pytest.fixture(scope="module")
def filled(kaa_node: Any) -> tuple[str, str]:
    """Servers, and what the topics' names begin with."""
    servers = str(kaa_node.bootstrap_servers)
    prefix = "compared"
    cluster = Cluster(servers)
    batches = [batch(first) for first in range(0, ROWS_PER_CODEC, BATCH_ROWS)]
    for codec in CODECS:
        cluster.create(f"{prefix}-{codec}", 3)
        options = {"topic": f"{prefix}-{codec}", "kafka.compression.type": codec}
        writer = RowWriter(sink_options({"kafka.bootstrap.servers": servers} | options))
        writer.write(batches)
    fill_with_transactions(cluster, f"{prefix}-transactions")
    fill_and_compact(cluster, f"{prefix}-compacted", batches)
    return servers, prefix


def fill_with_transactions(cluster: Cluster, topic: str) -> None:
    cluster.create(topic, 3)
    options = sink_options({"kafka.bootstrap.servers": cluster.servers, "topic": topic})
    brokers = brokers_of(options.settings)
    for number in range(12):
        names = TaskNames(topic, "run", number % 3, 0, number)
        rows = iter([batch(number * 10_000, 10_000)])
        _, entry = write_transaction(options, names, rows)
        assert entry is not None
        work = end_transaction(
            brokers.cluster, entry, brokers.timeout_ms, is_commit=number % 3 != 1
        )
        brokers.call(work)


def fill_and_compact(cluster: Cluster, topic: str, batches: list[pa.RecordBatch]) -> None:
    cluster.create(
        topic,
        1,
        cleanup_policy="compact",
        segment_bytes="1048576",
        min_cleanable_dirty_ratio="0.01",
    )
    options = sink_options({"kafka.bootstrap.servers": cluster.servers, "topic": topic})

    keyed = [rows.filter(rows.column("key").is_valid()) for rows in batches[:5]]
    RowWriter(options).write(keyed)

    def size() -> int:
        from kaa.client.sync import Admin

        with Admin(cluster.settings) as admin:
            dirs = admin.run(lambda one: one.describe_log_dirs())
        return sum(
            one.size_bytes
            for log_dir in dirs
            for one in log_dir.replicas
            if one.partition.topic == topic
        )

    full = size()
    assert wait_until(lambda: size() < full * 0.7, 60), "nothing was compacted"


def sums(frame: DataFrame) -> list[tuple[Any, ...]]:
    from pyspark.sql.functions import expr

    columns = ", ".join(f"`{name}`" for name in frame.columns)
    hashed = frame.selectExpr("topic", "partition", f"xxhash64({columns}) hash", "offset")
    rows = hashed.groupBy("topic", "partition").agg(
        expr("count(*)"),
        expr("bit_xor(hash)"),
        expr("sum(cast(hash as decimal(38,0)))"),
        expr("min(offset)"),
        expr("max(offset)"),
    )
    return sorted(tuple(row) for row in rows.collect())


def test_batch_queries_are_identical(spark: SparkSession, filled: tuple[str, str]) -> None:
    servers, prefix = filled
    options = {"subscribePattern": f"{prefix}-.*", "includeHeaders": True}
    ours = read(spark, servers, **options)
    theirs = read(spark, servers, format="kafka", **options)
    assert ours.schema == theirs.schema
    found = sums(ours)
    assert sum(row[2] for row in found) > 1_000_000
    assert found == sums(theirs)
    # A sum tells that there is a difference and not which: here are whole rows side by side.
    some = "offset between 500 and 520"
    assert ours.filter(some).exceptAll(theirs.filter(some)).count() == 0


def test_ranges_are_identical(spark: SparkSession, filled: tuple[str, str]) -> None:
    servers, prefix = filled
    options: dict[str, Any] = {
        "subscribe": f"{prefix}-zstd,{prefix}-compacted,{prefix}-transactions",
        "kafka.isolation.level": "read_committed",
        "minPartitions": 10,
        "startingTimestamp": 1,
    }
    ours = sums(read(spark, servers, localFiles=True, **options))
    assert ours == sums(read(spark, servers, format="kafka", **options))


def test_streams_are_identical(spark: SparkSession, filled: tuple[str, str], tmp_path: Any) -> None:
    servers, prefix = filled
    options = {
        "subscribe": f"{prefix}-transactions",
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        "maxOffsetsPerTrigger": 70_000,
    }
    found = []
    for source in ("kaa", "kafka"):
        frame = read_stream(spark, servers, format=source, **options)
        rows = tmp_path / source
        progress = run_to_end(frame, tmp_path / f"{source}-log", "parquet", path=str(rows))
        found.append((len(progress), sums(spark.read.parquet(str(rows)))))
    assert found[0] == found[1]
