"""Reads that leave out what a query does not need."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import kaa.spark
from kaa.spark.errors import OptionError
from kaa.spark.pruning import PlannedRead
from tests.spark.conftest import Cluster, numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS = 86_400_000


def spans(planned: PlannedRead) -> list[tuple[int, int, int]]:
    return [(one.partition.partition, one.start, one.end) for one in planned.ranges]


def test_partitions_offsets_times_and_columns(
    spark: SparkSession, servers: str, topic: str
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic, 2)
    for number in (0, 1):
        rows = numbered(100 * number, 100 * number + 10)
        cluster.send(topic, rows, partition=number, first_timestamp_ms=10 * DAY_MS)
        # Later, and older.
        cluster.send(topic, rows[:5], partition=number, first_timestamp_ms=5 * DAY_MS)
        cluster.send(topic, rows[:5], partition=number, first_timestamp_ms=20 * DAY_MS)
    options = {"kafka.bootstrap.servers": servers}

    def plan(where: str | None, in_order: bool = False) -> PlannedRead:
        return kaa.spark.plan_read(spark, topic, options, where=where, times_in_order=in_order)

    assert spans(plan(None)) == [(0, 0, 20), (1, 0, 20)]
    assert spans(plan("partition = 1 and offset between 3 and 100")) == [(1, 3, 20)]
    assert spans(plan("offset < 4")) == [(0, 0, 4), (1, 0, 4)]
    late = plan("timestamp >= timestamp '1970-01-21 00:00:00Z' and partition = 0")
    assert spans(late) == [(0, 15, 20)]
    assert late.load().count() == 5
    middle = "timestamp < timestamp '1970-01-08 00:00:00Z'"
    assert "times may go back" in str(plan(middle))
    assert plan(middle).load().count() == 10
    # Who says that times are in order gets what that means.
    assert spans(plan(middle, in_order=True)) == []
    assert plan(middle, in_order=True).load().count() == 0
    assert plan("partition = 7").load().count() == 0
    for where in ("offset > 100", "timestamp > '2100-01-01'", "offset < 0"):
        assert spans(plan(where)) == []
    narrow = kaa.spark.plan_read(
        spark, topic, options, where="offset > 17", columns=["cast(value as string) as text"]
    )
    assert narrow.columns == ("value", "offset")
    assert sorted(map(tuple, narrow.load().collect())) == [
        ("v103",), ("v104",), ("v3",), ("v4",)]  # fmt: skip
    assert str(narrow).splitlines() == [
        f"{topic}: 4 of 40 offsets, 2 of 2 partitions, 2 of 7 columns",
        "  partition 0: offsets 18 to 19",
        "  partition 1: offsets 18 to 19",
        "  columns: value, offset",
        "  filtered by Spark: offset > 17",
    ]
    with pytest.raises(OptionError, match="use topic, where and columns"):
        kaa.spark.plan_read(spark, topic, {**options, "startingOffsets": "earliest"})


def test_decoded_columns(spark: SparkSession, servers: str, topic: str) -> None:
    cluster = Cluster(servers)
    cluster.create(topic, 1)
    rows = [{"id": one, "who": {"name": f"n{one}"}, "price": 1.5} for one in range(5)]
    cluster.send(topic, [(None, json.dumps(row).encode()) for row in rows])
    options = {"kafka.bootstrap.servers": servers, "valueFormat": "json"}
    planned = kaa.spark.plan_read(
        spark, topic, options, where="id > 2 and offset >= 1", columns=["who.name"]
    )
    assert (planned.columns, planned.records) == (("offset", "id", "who"), 4)
    assert [row.name for row in planned.load().collect()] == ["n3", "n4"]
    assert kaa.spark.read(spark, topic, options, columns=["count(*) as n"]).collect() == [(5,)]
