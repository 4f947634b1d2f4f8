"""A pipeline by Spark: topics in, steps in SQL and Python, topics and tables out."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaa.spark.lake.table_state import open_existing, plan_read, read_file
from kaa.spark.pipeline.progress import PartStatus, read_status
from kaa.spark.pipeline.running import PipelineRun
from kaa.spark.pipeline.spec import PipelineError, parse
from tests.spark.conftest import Cluster, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = '{"type": "object", "properties": {"who": {"type": "string"}, "n": {"type": "integer"}}}'


def doubled(totals: Any) -> Any:
    return totals.selectExpr("who", "2 * total as total")


def document(servers: str, topic: str, storage: Path) -> dict[str, Any]:
    return {
        "name": "numbers",
        "storage": str(storage),
        "kafka": {"bootstrap.servers": servers},
        "trigger": {"availableNow": True},
        "sources": {
            "numbers": {
                "topic": topic,
                "options": {"valueFormat": "json", "valueSchema": SCHEMA},
            }
        },
        "steps": {
            "totals": {"sql": "select who, sum(n) as total from numbers group by who"},
            "doubled": {"function": "kaa_test_steps:doubled", "inputs": ["totals"]},
        },
        "sinks": {
            "out": {"from": "doubled", "topic": f"{topic}-out", "mode": "update", "key": "who"},
            "raw": {
                "from": "numbers",
                "table": "numbers",
                "options": {"warehouse": str(storage / "lake"), "layout": "parquet"},
            },
            "kept": {
                "from": "out",
                "table": "kept",
                "mode": "upsert",
                "options": {"warehouse": str(storage / "lake"), "buckets": 1},
            },
        },
    }


def rows(storage: Path, table: str, layout: str) -> list[dict[str, Any]]:
    options = {"table": table, "layout": layout, "warehouse": str(storage / "lake")}
    settings, opened = open_existing(options)
    plan = plan_read(settings, opened)
    return [row for file in plan.files for one in read_file(plan, file) for row in one.to_pylist()]


@pytest.mark.timeout(300)
def test_from_topic_to_topic_and_tables(
    spark: SparkSession,
    servers: str,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: Any = types.ModuleType("kaa_test_steps")
    steps.doubled = doubled
    monkeypatch.setitem(sys.modules, "kaa_test_steps", steps)
    cluster = Cluster(servers)
    cluster.create(topic, 2)
    cluster.create(f"{topic}-out", 1)
    pipeline = parse(document(servers, topic, tmp_path), {})
    shown: list[PartStatus] = []
    values = [
        (b"k%d" % one, json.dumps({"who": "ab"[one % 2], "n": one}).encode()) for one in range(20)
    ]
    cluster.send(topic, values)
    running = PipelineRun(spark, pipeline, shown.extend)
    running.run()
    found = read(spark, servers, subscribe=f"{topic}-out").orderBy("offset").collect()
    latest = {bytes(row.key): json.loads(row.value) for row in found}
    assert latest == {
        b"a": {"who": "a", "total": 2 * sum(range(0, 20, 2))},
        b"b": {"who": "b", "total": 2 * sum(range(1, 20, 2))},
    }
    raw = rows(tmp_path, "numbers", "parquet")
    assert sorted(row["n"] for row in raw) == list(range(20))
    kept = rows(tmp_path, "kept", "iceberg")
    assert {row["key"]: json.loads(row["value"]) for row in kept} == latest
    status = read_status(tmp_path)
    assert status is not None
    assert status["state"] == "stopped"
    assert [one["state"] for one in status["sinks"]] == ["done", "done", "done"]
    # Rows, bytes, times and the lag of each source are reported for every part.
    for one in shown[-3:]:
        assert (one.rows > 0, one.batch_seconds > 0) == (True, True), one
        assert one.kind == "topic" or one.size_bytes_per_second > 0
        assert set(one.lag.values()) == {0}
    assert running._record_bytes()[topic] > len(values[0][1])


def test_a_step_as_a_table(spark: SparkSession, servers: str, topic: str, tmp_path: Path) -> None:
    cluster = Cluster(servers)
    cluster.create(topic, 2)
    given = document(servers, topic, tmp_path)
    given["steps"] = {"odd": {"sql": "select who, n from numbers where n % 2 = 1"}}
    place = {"warehouse": str(tmp_path / "lake"), "partitionBy": "who"}
    given["sinks"] = {"odd": {"from": "odd", "table": "odd", "options": place}}
    pipeline = parse(given, {})
    # What was there is not read again, and what is new comes in by itself.
    for first, last in ((0, 20), (20, 22)):
        values = [(None, json.dumps({"who": "ab"[one % 2], "n": one}).encode())
                  for one in range(first, last)]  # fmt: skip
        cluster.send(topic, values)
        PipelineRun(spark, pipeline, lambda _: None).run()
        found = rows(tmp_path, "odd", "iceberg")
        expected = [("b", one) for one in range(1, last, 2)]
        assert sorted((row["who"], row["n"]) for row in found) == expected


def test_a_table_of_a_topic_that_no_row_has_made_yet(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    Cluster(servers).create(topic, 1)
    given = document(servers, topic, tmp_path)
    given["steps"] = {"odd": {"sql": "select who, n from numbers where n % 2 = 1"}}
    given["sinks"] = {
        "odd": {"from": "odd", "topic": f"{topic}-odd"},
        "kept": {"from": "odd", "table": "kept", "options": {"warehouse": str(tmp_path / "lake")}},
    }
    PipelineRun(spark, parse(given, {}), lambda _: None).run()
    assert rows(tmp_path, "kept", "iceberg") == []
    assert read(spark, servers, subscribe=f"{topic}-odd").count() == 0


def test_a_part_that_fails_fails_the_run(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic, 1)
    cluster.send(topic, [(None, b"1")])
    wrong = document(servers, topic, tmp_path)
    del wrong["steps"]
    bad = {"from": "numbers", "topic": topic, "value": "raise_error('as told')"}
    wrong["sinks"] = {"out": bad}
    with pytest.raises(PipelineError, match="out: "):
        PipelineRun(spark, parse(wrong, {}), lambda _: None).run()
    status = read_status(tmp_path)
    assert status is not None
    assert status["sinks"][0]["state"] == "failed"
