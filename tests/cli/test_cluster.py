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


def test_quorum_and_features(bootstrap: str) -> None:
    found = json.loads(kaa(bootstrap, "quorum", "-o", "json").stdout)
    assert found["leader_id"] in [row["id"] for row in found["replicas"]]
    (leader,) = [row for row in found["replicas"] if row["role"] == "leader"]
    assert leader["lag"] == 0
    assert kaa(bootstrap, "quorum").stdout.startswith(f"leader {found['leader_id']}, epoch ")
    rows = json.loads(kaa(bootstrap, "features", "-o", "json").stdout)
    levels = {row["name"]: row["level"] for row in rows}
    assert levels["metadata.version"] > 0
    assert "LAST-FETCH" in kaa(bootstrap, "quorum", "-o", "wide").stdout
