"""Columns out of keys and values, through Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PySparkException

from kaa.testing import Registry
from tests.spark.conftest import Cluster, read, read_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def test_a_registry_and_bad_records(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic, 1)
    with Registry(basic_auth="user:password") as registry:
        number = registry.register(f"{topic}-value", json.dumps(SCHEMA))
        good = registry.frame(number, b"\x02\x02\x02x\x00")
        cluster.send(topic, [(b"k", good), (b"k", b"bad"), (b"k", None)])
        options: dict[str, Any] = {
            "subscribe": topic,
            "valueFormat": "avro",
            "schemaRegistry.url": registry.url,
            "schemaRegistry.basicAuth": "user:password",
        }
        frame = read(spark, servers, **options)
        assert frame.columns[-3:] == ["id", "tags", "kaa_error"]
        rows = frame.orderBy("offset").collect()
        assert [(row.id, row.tags) for row in rows] == [(1, ["x"]), (None, None), (None, None)]
        assert rows[1].kaa_error == "no schema id before the value"
        assert bytes(rows[1].value) == b"bad"
        assert rows[2].kaa_error is None
        narrow = spark.read.format("kaa").schema("offset bigint, id bigint").options(**options)
        found = narrow.option("kafka.bootstrap.servers", servers).option("badRecords", "drop")
        assert sorted(map(tuple, found.load().collect())) == [(0, 1), (2, None)]
        query = (
            read_stream(spark, servers, **options, startingOffsets="earliest")
            .select("id", "kaa_error")
            .writeStream.format("memory")
            .queryName("decoded")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(100)
        assert spark.sql("select count(*), count(id) from decoded").collect() == [(3, 1)]
        failing = read(spark, servers, **options, badRecords="fail")
        with pytest.raises(PySparkException, match="offset 1: no schema id"):
            failing.collect()
        with pytest.raises(AnalysisException, match="valueFormat is 'xml'"):
            read(spark, servers, subscribe=topic, valueFormat="xml")
