from __future__ import annotations

import json

from click.testing import CliRunner, Result

from kaa.cli.root import root


def kaa(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(root, ["cluster", *arguments, "-b", bootstrap])


def test_brokers(bootstrap: str) -> None:
    (broker,) = json.loads(kaa(bootstrap, "brokers", "-o", "json").stdout)
    assert f"{broker['host']}:{broker['port']}" == bootstrap
    assert (broker["roles"], broker["state"]) == (["broker", "controller"], "active")
    assert kaa(bootstrap, "brokers").stdout.split()[:3] == ["ID", "HOST", "PORT"]


def test_controllers(bootstrap: str) -> None:
    (controller,) = json.loads(kaa(bootstrap, "controllers", "-o", "json").stdout)
    assert (controller["role"], controller["lag"]) == ("leader", 0)
    assert controller["roles"] == ["broker", "controller"]
    assert controller["endpoints"][0].startswith("CONTROLLER://")
