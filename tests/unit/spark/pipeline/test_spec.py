"""Files of pipelines: what is read, what is refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from kaa.spark.pipeline.running import table_settings
from kaa.spark.pipeline.spec import PipelineError, parse, read

DOCUMENT: dict[str, Any] = {
    "name": "orders",
    "storage": "${HOME}/store",
    "kafka": {"bootstrap.servers": "${SERVERS}", "retries": 3},
    "configuration": {"spark.sql.shuffle.partitions": 2, "spark.x": True},
    "trigger": {"processingTime": "5 seconds"},
    "sources": {
        "orders": {
            "topic": "orders",
            "options": {"valueFormat": "json", "valueSchema": "{}"},
            "watermark": {"column": "timestamp", "delay": "10 seconds"},
        },
        "customers": {"table": "customers"},
    },
    "steps": {
        "totals": {"sql": "select 1 from orders"},
        "shaped": {"function": "json:dumps", "inputs": ["totals"]},
    },
    "sinks": {
        "totals": {"from": "shaped", "topic": "totals", "mode": "update", "key": "id"},
        "raw": {"from": "orders", "table": "shop.orders", "options": {"warehouse": "lake"}},
        "kept": {"from": "totals", "table": "totals", "mode": "upsert"},
        "shaped": {"from": "shaped", "table": "shaped", "mode": "complete"},
    },
}
ENVIRONMENT = {"HOME": "here", "SERVERS": "a:1"}


def test_a_whole_file() -> None:
    pipeline = parse(DOCUMENT, ENVIRONMENT)
    assert pipeline.storage == "here/store"
    assert pipeline.kafka_options == {"kafka.bootstrap.servers": "a:1", "kafka.retries": "3"}
    assert pipeline.configuration == {"spark.sql.shuffle.partitions": "2", "spark.x": "true"}
    assert pipeline.sources[0].watermark == {"column": "timestamp", "delay": "10 seconds"}
    assert pipeline.steps[1].load()({}) == "{}"
    assert "a:1" not in repr(pipeline)
    raw = table_settings(pipeline, pipeline.sinks[1])
    assert (raw.topic, raw.table, raw.mode) == ("orders", "shop.orders", "append")
    assert raw.formats == {"valueFormat": "json", "valueSchema": "{}"}
    kept = table_settings(pipeline, pipeline.sinks[2])
    assert (kept.topic, kept.mode, kept.formats) == ("totals", "upsert", {})


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("name",), None, "name: must be of type string"),
        (("name",), "a b", "does not look like"),
        (("colour",), "red", "colour: there is no such key"),
        (("kafka",), {}, "bootstrap.servers is missing"),
        (("storage",), "${NONE}", "no variable NONE"),
        (("sources", "orders", "topics"), "x", "sources.orders.topics: there is no such key"),
        (("sources", "orders", "table"), "x", "give either topic or table"),
        (("sources", "customers", "watermark"), {"column": "a", "delay": "b"}, "no watermark"),
        (("steps", "totals", "function"), "a:b", "give either sql or function"),
        (("steps", "orders"), {"sql": "x"}, "a source or step of this name"),
        (
            ("steps", "shaped", "inputs"),
            ["none"],
            "'none' is neither a source nor a step before it",
        ),
        (("sinks", "totals", "from"), "none", "'none' is neither a source nor a step"),
        (("sinks", "totals", "mode"), "upsert", "upsert is for tables"),
        (("sinks", "totals", "mode"), "often", "must be append, update, complete, upsert"),
        (("sinks", "raw", "from"), "nowhere", "'nowhere' is neither a source nor a step"),
        (("sinks", "shaped", "mode"), "upsert", "name that sink here with mode upsert"),
        (("sinks", "shaped", "mode"), "update", "a table of a step is appended to"),
        (("sinks", "raw", "mode"), "update", "append or upsert"),
        (("sinks", "raw", "topic"), "x", "give either topic or table"),
        (("steps", "shaped", "inputs"), [1], r"inputs\[0\]: must be of type string"),
    ],
)
def test_refused(path: tuple[str, ...], value: Any, message: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    place = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    with pytest.raises(PipelineError, match=message):
        parse(document, ENVIRONMENT)


def test_everything_wrong_is_told_at_once() -> None:
    with pytest.raises(PipelineError) as refusal:
        parse({"name": 1}, {})
    assert str(refusal.value).splitlines() == [
        "the file: storage is missing",
        "the file: sources is missing",
        "the file: sinks is missing",
        "name: must be of type string",
    ]


def test_files(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="No such file"):
        read(tmp_path / "none.yaml")
    file = tmp_path / "wrong.yaml"
    file.write_text("a: [")
    with pytest.raises(PipelineError, match="not YAML"):
        read(file)
    file.write_text("- a")
    with pytest.raises(PipelineError, match="must be of type object"):
        read(file)


def test_functions_that_are_not_there() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["steps"]["shaped"]["function"] = "json:nothing"
    with pytest.raises(PipelineError, match="no function nothing"):
        parse(document, ENVIRONMENT).steps[1].load()
