"""Spark in a test: a small session, and streams that run until everything was read.

def test_totals(kafka, spark):
    orders = kafka.topic("orders")
    orders.seed(["1", "2", "3"])
    stream = read_stream(spark, kafka, orders)
    assert rows(stream.selectExpr("CAST(value AS STRING)")) == [("1",), ("2",), ("3",)]
"""

from __future__ import annotations

import itertools
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from kaa import limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from kaa.testing.broker import Broker
    from kaa.testing.topic import Topic

# Two threads show what goes wrong in parallel; a page of figures is of no use to a test.
_MASTER: Final = "local[2]"
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}
_WORKER_IS_LATE: Final = "Python worker failed to connect back"
_ATTEMPTS_MAX: Final = 3
_numbers = itertools.count(1)


@contextmanager
def session(**settings: str) -> Iterator[SparkSession]:
    """A session for tests, which ends with the block; settings with `_` for `.`."""
    from kaa.spark.sessions import session as start

    more = {name.replace("_", "."): value for name, value in settings.items()}
    running = start(_MASTER, app_name="kaa-testing", config={**_SETTINGS, **more})
    try:
        yield running
    finally:
        running.stop()


def read_stream(
    spark: SparkSession, broker: Broker, topic: Topic | str, **options: str
) -> DataFrame:
    """A topic as a stream from its beginning on."""
    given = {"startingOffsets": "earliest", **options}
    reader = spark.readStream.format("kaa")
    reader = reader.option("kafka.bootstrap.servers", broker.bootstrap_servers)
    frame: DataFrame = reader.option("subscribe", str(topic)).options(**given).load()
    return frame


def drain(stream: DataFrame, *, output_mode: str = "append", timeout: float = 120.0) -> DataFrame:
    """Runs a stream until all that is there now was processed; gives what came out as a table."""
    from pyspark.errors import StreamingQueryException

    for attempt in range(1, _ATTEMPTS_MAX + 1):
        try:
            return _drain(stream, output_mode, timeout)
        except StreamingQueryException as error:
            # Spark gives a new Python worker ten seconds, which a busy machine may exceed.
            if attempt == _ATTEMPTS_MAX or _WORKER_IS_LATE not in str(error):
                raise
    raise AssertionError("unreachable")


def _drain(stream: DataFrame, output_mode: str, timeout: float) -> DataFrame:
    name = f"kaa_testing_{next(_numbers)}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        query = (
            stream.writeStream.format("memory")
            .queryName(name)
            .outputMode(output_mode)
            .option("checkpointLocation", folder)
            .trigger(availableNow=True)
            .start()
        )
        if not query.awaitTermination(int(timeout)):
            query.stop()
            raise TimeoutError(f"the stream was not done within {timeout:g} s")
        frame: DataFrame = stream.sparkSession.table(name)
    return frame


def rows(stream: DataFrame, *, output_mode: str = "append") -> list[Any]:
    """The rows that a stream gives for all that is there now, in order."""
    found = drain(stream, output_mode=output_mode).limit(limits.TESTING_ROWS_MAX).collect()
    return sorted(tuple(row) for row in found)
