from __future__ import annotations

import json

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


def test_api_versions(bootstrap: str) -> None:
    answer = kaa(bootstrap, "api-versions")
    assert answer.exit_code == 0
    assert answer.stdout.split()[:5] == ["BROKER", "KEY", "NAME", "MIN", "MAX"]


def test_features(bootstrap: str) -> None:
    rows = json.loads(kaa(bootstrap, "features", "-o", "json").stdout)
    levels = {row["name"]: row["level"] for row in rows}
    assert levels["metadata.version"] > 0
