from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from kaa.cli.root import root


def kaa(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(root, ["cluster", *arguments, "-b", bootstrap])


def test_info(bootstrap: str) -> None:
    info = json.loads(kaa(bootstrap, "info", "-o", "json").stdout)
    (broker,) = info["brokers"]
    assert f"{broker['host']}:{broker['port']}" == bootstrap
    assert kaa(bootstrap, "info").stdout.startswith(f"cluster {info['cluster_id']}\nID  HOST")


def test_health(bootstrap: str) -> None:
    answer = kaa(bootstrap, "health")
    assert answer.exit_code == 0
    assert answer.stdout.startswith("healthy: ")
    assert json.loads(kaa(bootstrap, "health", "-o", "json").stdout)["healthy"]


@pytest.mark.parametrize(
    ("verb", "columns"),
    [
        ("api-versions", ["BROKER", "KEY", "NAME", "MIN", "MAX"]),
        ("logdirs", ["BROKER", "PATH", "ERROR", "REPLICAS"]),
    ],
)
def test_tables(bootstrap: str, verb: str, columns: list[str]) -> None:
    answer = kaa(bootstrap, verb)
    assert answer.exit_code == 0
    assert answer.stdout.split()[: len(columns)] == columns


def test_features(bootstrap: str) -> None:
    rows = json.loads(kaa(bootstrap, "features", "-o", "json").stdout)
    levels = {row["name"]: row["level"] for row in rows}
    assert levels["metadata.version"] > 0
