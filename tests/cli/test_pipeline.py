"""`kaa pipeline` as far as it needs no Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from kaa.cli.client import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_UNHEALTHY, EXIT_USAGE
from kaa.cli.pipeline import progress_table
from kaa.cli.root import root
from kaa.spark.pipeline.progress import PartStatus, write_status
from kaa.testing import Broker

FILE = """
name: sample
storage: {storage}
kafka: {{bootstrap.servers: "{servers}"}}
sources:
  numbers: {{topic: {topic}}}
steps:
  odd: {{sql: "select * from numbers"}}
  even: {{function: "own_steps:even", inputs: [odd]}}
sinks:
  out: {{from: even, topic: out}}
  table: {{from: numbers, table: numbers}}
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Tables and pipelines are compared with Kafka by the tests of their readers."""
    with Broker() as running:
        yield running


def kaa(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["pipeline", *arguments])


def test_from_a_file_to_its_status(broker: Broker, tmp_path: Path) -> None:
    bootstrap, topic_name = broker.bootstrap_servers, broker.name()
    file = tmp_path / "sample.yaml"
    storage = tmp_path / "storage"
    file.write_text(FILE.format(storage=storage, servers=bootstrap, topic=topic_name))
    missing = kaa("validate", str(file))
    assert missing.exit_code == EXIT_FAILED
    assert "own_steps" in missing.stderr
    (tmp_path / "own_steps.py").write_text("def even(odd):\n    return odd\n")
    answer = kaa("validate", str(file), "-o", "json")
    assert json.loads(answer.stdout) == [{"name": "sample", "valid": True}]
    assert kaa("plan", str(file)).exit_code == EXIT_NOT_FOUND
    CliRunner().invoke(root, ["topic", "create", topic_name, "-p", "2", "-b", bootstrap])
    plan = json.loads(kaa("plan", str(file), "-o", "json").stdout)
    assert plan[0]["detail"] == "2 partitions, 0 records"
    assert [one["what"] for one in plan[1:]] == [
        "sql",
        "own_steps:even",
        "topic out",
        "table numbers",
    ]
    assert kaa("status", str(file)).exit_code == EXIT_NOT_FOUND
    part = PartStatus("out", "topic", "running", rows=5)
    write_status(storage, "sample", [part], is_running=True)
    status = kaa("status", str(file))
    assert status.exit_code == 0
    assert "sample: running" in status.stderr
    # The storage says as much, and needs no variable that the file may name.
    assert kaa("status", str(storage)).stdout == status.stdout
    part.error = "as told"
    write_status(storage, "sample", [part], is_running=False)
    failed = kaa("status", str(file), "-o", "json")
    assert failed.exit_code == EXIT_UNHEALTHY
    assert "out: as told" in failed.stderr


def test_the_moving_table() -> None:
    parts = [PartStatus("out", "topic"), PartStatus("in", "table", "running", 12_345, batch=7)]
    parts[1].lag = {"numbers": 3}
    text = StringIO()
    Console(width=80, file=text).print(progress_table(parts))
    head, *rows = text.getvalue().strip().splitlines()
    assert " ".join(head.split()) == "sink kind state rows rows/s MiB/s batch batch s lag"
    assert [" ".join(row.split()) for row in rows] == [
        "out topic starting 0 0 0.0 - 0.0",
        "in table running 12,345 0 0.0 7 0.0 numbers 3",
    ]


def test_wrong_files(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("name: x")
    answer = kaa("validate", str(file))
    assert answer.exit_code == EXIT_FAILED
    assert "sinks is missing" in answer.stderr
    assert kaa("run", str(tmp_path / "none.yaml")).exit_code == EXIT_FAILED


def test_a_first_pipeline(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    made = kaa("init", str(folder), "--topic", "orders", "-o", "json")
    file = folder / "pipeline.yaml"
    assert json.loads(made.stdout) == [{"folder": str(folder), "next": f"kaa pipeline run {file}"}]
    assert kaa("validate", str(file)).exit_code == 0
    again = kaa("init", str(folder))
    assert again.exit_code == EXIT_FAILED
    assert "File exists" in again.stderr
    project = tmp_path / "sdp"
    assert kaa("init", str(project), "--sdp", "--from", str(file)).exit_code == 0
    assert "'subscribe': 'orders'" in (project / "transformations" / "shop.py").read_text()
    assert kaa("init", str(project), "--from", str(file)).exit_code == EXIT_USAGE
