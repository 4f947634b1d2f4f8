"""Metrics of a real query, over HTTP."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import kaa.spark
from tests.oracle.environment import wait_until
from tests.spark.conftest import Cluster, numbered, read_stream, run_to_end
from tests.support.pace import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_rows_bytes_and_lag(spark: SparkSession, servers: str, topic: str, tmp_path: Path) -> None:
    cluster = Cluster(servers)
    cluster.create(topic, 1)
    cluster.send(topic, numbered(0, 10))
    served = kaa.spark.serve_metrics(spark)
    try:
        frame = read_stream(spark, servers, subscribe=topic, startingOffsets="earliest")
        run_to_end(frame, tmp_path / "checkpoint", queryName="counted")

        def found() -> dict[str, float]:
            with urllib.request.urlopen(served.url, timeout=PATIENCE_SECONDS) as answer:
                lines = answer.read().decode().splitlines()
            pairs = (one.rpartition(" ") for one in lines if not one.startswith("#"))
            return {name: float(value) for name, _, value in pairs}

        # Reports come on a thread of Spark's.
        label = 'query="counted"'
        ended = f"kaa_spark_query_up{{{label}}}"
        assert wait_until(lambda: found().get(ended) == 0, PATIENCE_SECONDS), found()
        told = found()
        assert told[f'kaa_spark_source_rows_total{{{label},source="0"}}'] == 10
        assert told[f'kaa_spark_source_bytes_total{{{label},source="0"}}'] > 40
        assert told[f'kaa_spark_source_lag_records{{{label},source="0",topic="{topic}"}}'] == 0
    finally:
        served.stop()
