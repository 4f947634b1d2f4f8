"""Spark with one of two connectors: `kaa`, or `kafka`, which is Spark's own.

A session with two cores runs the query once to warm up, then as it is timed. Reads go to Spark's
no-op sink, so that nothing but reading is paid for.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from typing import TYPE_CHECKING, Any

from benches.drivers.program import run
from kaa.spark.sessions import session
from tests.spark.reference import reference_jars

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

MICRO_BATCH_RECORDS = 200


def _session(folder: str, connector: str) -> SparkSession:
    config = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "2g",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    if connector == "kafka":
        config["spark.jars"] = reference_jars()
    found = session("local[2]", app_name="bench", config=config)
    found.sparkContext.setLogLevel("ERROR")
    return found


def _options(task: dict[str, Any]) -> dict[str, str]:
    return {"kafka.bootstrap.servers": task["bootstrap_servers"]}


def _read(spark: SparkSession, task: dict[str, Any], folder: str) -> dict[str, float]:
    del folder
    frame = (
        spark.read.format(task["connector"])
        .options(**_options(task), subscribe=task["topic"])
        .option("startingOffsets", "earliest")
        .load()
    )
    frame.write.format("noop").mode("overwrite").save()
    return {}


def _stream(spark: SparkSession, task: dict[str, Any], folder: str) -> dict[str, float]:
    return _streamed(spark, task, folder, {})


def _micro_batch(spark: SparkSession, task: dict[str, Any], folder: str) -> dict[str, float]:
    return _streamed(spark, task, folder, {"maxOffsetsPerTrigger": str(MICRO_BATCH_RECORDS)})


def _streamed(
    spark: SparkSession, task: dict[str, Any], folder: str, more: dict[str, str]
) -> dict[str, float]:
    frame = (
        spark.readStream.format(task["connector"])
        .options(**_options(task), **more, subscribe=task["topic"])
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", tempfile.mkdtemp(dir=folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    times = [each["durationMs"]["triggerExecution"] / 1e3 for each in query.recentProgress]
    return {"batch_seconds": statistics.median(times), "batches": float(len(times))}


def _write(spark: SparkSession, task: dict[str, Any], folder: str) -> dict[str, float]:
    del folder
    value = f"repeat('x', {task['record_bytes']})"
    frame = spark.range(task["count"]).selectExpr("cast(id as string) key", f"{value} value")
    writer = frame.write.format(task["connector"]).mode("append")
    writer.options(**_options(task), topic=task["topic"]).save()
    return {}


QUERIES = {"read": _read, "stream": _stream, "micro-batch": _micro_batch, "write": _write}


def query(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    ask = QUERIES[task["query"]]
    with tempfile.TemporaryDirectory(prefix="kaa-spark-") as folder:
        spark = _session(folder, task["connector"])
        ask(spark, task, folder)
        begin()
        started = time.perf_counter()
        more = ask(spark, task, folder)
        seconds = time.perf_counter() - started
        spark.stop()
    size = task["count"] * task["record_bytes"]
    return {
        "records": task["count"],
        "bytes": size,
        "seconds": seconds,
        "mb_per_second": size / seconds / 1e6,
        "records_per_second": task["count"] / seconds,
        **more,
    }


if __name__ == "__main__":
    run({"query": query})
