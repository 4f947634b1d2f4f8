from __future__ import annotations

import json
import time

from click.testing import CliRunner, Result

from kaa.cli.client import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_USAGE
from kaa.cli.root import root

NOT_WAITED_SECONDS = 14.0  # One wait of the client takes longer.


def kaa(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(root, [*arguments, "-b", bootstrap])


def test_settings_of_a_topic(bootstrap: str, topic_name: str) -> None:
    kaa(bootstrap, "topic", "create", topic_name)
    topic = ("topic", topic_name)
    done = kaa(bootstrap, "config", "set", *topic, "retention.ms=77", "segment.ms=88")
    assert done.exit_code == 0, done.output
    rows = json.loads(kaa(bootstrap, "config", "describe", *topic, "-o", "json").stdout)
    values = {row["name"]: row["value"] for row in rows}
    assert values["retention.ms"] == "77"
    assert values["segment.ms"] == "88"
    assert kaa(bootstrap, "config", "get", *topic, "retention.ms").stdout == "77\n"
    assert kaa(bootstrap, "config", "get", *topic, "x").exit_code == EXIT_NOT_FOUND
    assert kaa(bootstrap, "config", "unset", *topic, "retention.ms").exit_code == 0
    everything = kaa(bootstrap, "config", "describe", *topic, "--all", "--docs").stdout
    assert "NAME" in everything
    assert "default_config" in everything
    refused = kaa(bootstrap, "config", "set", *topic, "retention.ms=soon")
    assert refused.exit_code == EXIT_FAILED
    assert "INVALID_CONFIG (40)" in refused.stderr


def test_settings_of_brokers(bootstrap: str) -> None:
    (row,) = json.loads(kaa(bootstrap, "cluster", "info", "-o", "json").stdout)["brokers"]
    described = kaa(bootstrap, "config", "describe", "broker", str(row["id"]))
    assert "log.dirs" in described.stdout
    checked = kaa(
        bootstrap, "config", "set", "broker", "default", "log.cleaner.threads=1", "--dry-run"
    )
    assert checked.exit_code == 0, checked.output
    assert kaa(bootstrap, "config", "get", "broker", "x", "y").exit_code == EXIT_USAGE


def test_a_broker_that_is_not_there(bootstrap: str) -> None:
    # A client waits for brokers to come back; nobody waits for one that never was.
    begun = time.monotonic()
    for call in (
        ("describe", "broker", "7777"),
        ("get", "broker", "7777", "log.dirs"),
        ("set", "broker", "7777", "log.cleaner.threads=1"),
    ):
        answer = kaa(bootstrap, "config", *call)
        assert answer.exit_code == EXIT_NOT_FOUND, answer.output
        assert "broker 7777: the brokers of the cluster are 1" in answer.stderr
        assert "kaa cluster info" in answer.stderr
    assert time.monotonic() - begun < NOT_WAITED_SECONDS
