"""`kaa lake` against a running node, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kaa.cli.client import EXIT_FAILED, EXIT_NOT_FOUND
from kaa.cli.root import root
from kaa.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Tables and pipelines are compared with Kafka by the tests of their readers."""
    with Broker() as running:
        yield running


def kaa(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(root, [*arguments, "-b", bootstrap])


def test_a_table_from_the_command_line(broker: Broker, tmp_path: Path) -> None:
    bootstrap, topic_name = broker.bootstrap_servers, broker.name()
    kaa(bootstrap, "topic", "create", topic_name, "-p", "1")
    place = ["--warehouse", str(tmp_path), "--layout", "parquet"]
    for value in ("a", "b"):
        assert kaa(bootstrap, "produce", topic_name, value).exit_code == 0
        answer = kaa(bootstrap, "lake", "run", topic_name, "--once", "--no-spark", *place)
        assert answer.exit_code == 0, answer.output
        assert "1 row in 1 file" in answer.stderr
        assert "up to date" in answer.stderr
    status = kaa(bootstrap, "lake", "status", topic_name, *place, "-o", "json")
    found = json.loads(status.stdout)
    assert (found["rows"], found["files"], found["lag"]) == (2, 2, 0)
    assert found["partitions"][0]["offset"] == 2
    assert "last commit" in kaa(bootstrap, "lake", "status", topic_name, *place).stderr
    plan = kaa(bootstrap, "lake", "compact", topic_name, *place, "-o", "json")
    assert json.loads(plan.stdout)[0]["files"] == 2
    assert "nothing was changed" in plan.stderr
    assert (
        kaa(bootstrap, "lake", "compact", topic_name, *place, "--yes", "--no-spark").exit_code == 0
    )
    status = kaa(bootstrap, "lake", "status", topic_name, *place, "-o", "json")
    assert json.loads(status.stdout)["files"] == 1
    more = ["--option", "compression=snappy"]
    plan = kaa(bootstrap, "lake", "alter", topic_name, *place, *more, "-o", "json")
    assert json.loads(plan.stdout) == [{"setting": "compression", "now": "zstd", "then": "snappy"}]
    altered = kaa(bootstrap, "lake", "alter", topic_name, *place, *more, "--yes")
    assert altered.exit_code == 0, altered.output
    assert (
        json.loads(kaa(bootstrap, "lake", "alter", topic_name, *place, *more, "-o", "json").stdout)
        == []
    )
    refused = kaa(bootstrap, "lake", "alter", topic_name, *place, "--mode", "upsert")
    assert "mode cannot be changed" in refused.stderr
    resumed = kaa(bootstrap, "lake", "resume", topic_name, *place, "--from", "rows", "-o", "json")
    assert json.loads(resumed.stdout) == [{"partition": 0, "offset_now": 2, "offset": 2}]
    for name in ("expire", "orphans"):
        assert (
            json.loads(kaa(bootstrap, "lake", name, topic_name, *place, "-o", "json").stdout) == []
        )


@pytest.mark.parametrize("layout", ["iceberg", "parquet"])
@pytest.mark.parametrize("name", ["status", "compact", "manifests", "expire", "orphans", "alter"])
def test_a_table_that_is_not_there_is_not_made(
    broker: Broker, tmp_path: Path, name: str, layout: str
) -> None:
    bootstrap, topic_name = broker.bootstrap_servers, broker.name()
    kaa(bootstrap, "topic", "create", topic_name, "-p", "1")
    place = ["--warehouse", str(tmp_path), "--layout", layout]
    more = ["--option", "compression=snappy"] if name == "alter" else []
    answer = kaa(bootstrap, "lake", name, topic_name, *place, *more)
    assert answer.exit_code == EXIT_NOT_FOUND, answer.output
    assert "there is no table" in answer.stderr
    assert [one for one in tmp_path.rglob("*") if one.name != "catalog.db"] == []


def test_wrong_use(broker: Broker, tmp_path: Path) -> None:
    bootstrap, topic_name = broker.bootstrap_servers, broker.name()
    place = ["--warehouse", str(tmp_path)]
    absent = kaa(bootstrap, "lake", "run", topic_name, "--once", "--no-spark", *place)
    assert absent.exit_code == EXIT_NOT_FOUND
    kaa(bootstrap, "topic", "create", topic_name, "-p", "1")
    wrong = kaa(bootstrap, "lake", "status", topic_name, *place, "--partition-by", "week(x)")
    assert wrong.exit_code == EXIT_FAILED
    assert "not one of year" in wrong.stderr
    unknown = kaa(bootstrap, "lake", "status", topic_name, *place, "--option", "colour=red")
    assert "unknown options of a table: colour" in unknown.stderr
