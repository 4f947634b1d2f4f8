"""A Spark streaming job, tested: what comes out of it for what is in the topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kaa.testing.spark import read_stream, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kaa.testing import Broker

pytest.importorskip("pyspark")


def totals(orders: DataFrame) -> DataFrame:
    """The job: cents by customer."""
    parsed = orders.selectExpr(
        "CAST(key AS STRING) AS customer", "CAST(CAST(value AS STRING) AS INT) AS cents"
    )
    return parsed.groupBy("customer").sum("cents")


def test_totals(kafka: Broker, spark: SparkSession) -> None:
    orders = kafka.topic("orders", partitions=2)
    orders.seed([("anna", "100"), ("bert", "250"), ("anna", "50")])
    stream = totals(read_stream(spark, kafka, orders))
    assert rows(stream, output_mode="complete") == [("anna", 150), ("bert", 250)]
