"""Pipelines as projects of Spark Declarative Pipelines; tests/spark/declarative runs one."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml

from kaa.spark.pipeline.sdp import write_project, write_sample
from kaa.spark.pipeline.spec import PipelineError, read

DOCUMENT: dict[str, Any] = {
    "name": "shop.orders",
    "storage": "storage",
    "kafka": {"bootstrap.servers": "${SERVERS}", "sasl.jaas.config": "${SECRET}"},
    "configuration": {"spark.sql.shuffle.partitions": 2},
    "sources": {
        "orders": {
            "topic": "orders",
            "options": {"valueFormat": "json", "valueSchema": "{}"},
            "watermark": {"column": "at", "delay": "1 hour"},
        },
        "customers": {"table": "customers", "options": {"warehouse": "lake"}},
    },
    "steps": {
        "joined": {"sql": "select * from orders join customers using (id)"},
        "checked": {"function": "own:checked", "inputs": ["joined", "customers"]},
    },
    "sinks": {
        "out": {"from": "checked", "topic": "out", "key": "id"},
        "kept": {"from": "joined", "table": "kept", "options": {"warehouse": "lake"}},
    },
}


def project(tmp_path: Path, document: dict[str, Any]) -> tuple[dict[str, Any], str]:
    file = tmp_path / "orders.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    (tmp_path / "own.py").write_text("def checked(joined, customers):\n    return joined\n")
    folder = tmp_path / "project"
    write_project(file, folder)
    spec = yaml.safe_load((folder / "spark-pipeline.yml").read_text())
    (code,) = (folder / "transformations").iterdir()
    text = code.read_text()
    ast.parse(text)
    return spec, text


def test_the_same_sources_steps_and_sinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "a secret")
    spec, text = project(tmp_path, DOCUMENT)
    assert spec["name"] == "shop.orders"
    assert spec["storage"] == f"file://{tmp_path}/project/storage"
    assert spec["configuration"] == {"spark.sql.shuffle.partitions": "2"}
    assert "a secret" not in text
    assert "'kafka.sasl.jaas.config': '${SECRET}'" in text
    assert ".withWatermark('at', '1 hour')" in text
    # Streams are named as streams, the table of customers is read as it is.
    assert "from STREAM(orders) join customers using (id)" in text
    assert (
        "checked(joined=spark.readStream.table('joined'), customers=spark.read.table('customers'))"
        in text
    )
    assert "dp.create_sink('out', 'kaa', given({" in text
    assert "'cast(id as string) as key', 'cast(to_json(struct(*)) as string) as value'" in text
    assert "dp.create_sink('kept', 'kaa_table', given({" in text
    assert (tmp_path / "project" / "own.py").is_file()


def test_what_it_cannot_do(tmp_path: Path) -> None:
    update = {**DOCUMENT, "sinks": {"out": {"from": "joined", "topic": "out", "mode": "update"}}}
    with pytest.raises(PipelineError, match="there is no mode update"):
        project(tmp_path, update)
    still = {**DOCUMENT, "sinks": {"out": {"from": "customers", "topic": "out"}}}
    with pytest.raises(PipelineError, match="'customers' is not a stream"):
        project(tmp_path, still)


def test_a_first_pipeline(tmp_path: Path) -> None:
    file = write_sample(tmp_path / "first-one", "host:1", "events")
    pipeline = read(file)
    assert pipeline.name == "first_one"
    assert pipeline.kafka == {"bootstrap.servers": "host:1"}
    write_project(file, file.parent)
    text = (file.parent / "transformations" / "first_one.py").read_text()
    assert "'table': 'first_one.shouted'" in text
    # A view and a sink cannot have the same name.
    assert "dp.create_sink('shouted_sink', 'kaa'" in text
    assert "dp.create_sink('history', 'kaa_table'" in text
    with pytest.raises(PipelineError, match="exists"):
        write_sample(tmp_path / "first-one", "host:1", "events")
