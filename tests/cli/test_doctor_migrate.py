from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kaa.cli.doctor_migrate import feature_differences
from kaa.cli.root import root
from kaa.controller.feature_table import supported_ranges
from tests.support.broker_process import BrokerProcess

GOOD = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.quorum.voters=1@127.0.0.1:9093
controller.listener.names=CONTROLLER
log.dirs=/var/lib/kafka
"""


def differences(
    tmp_path: Path, text: str, *arguments: str
) -> tuple[int, dict[str, tuple[str, str]]]:
    file = tmp_path / "server.properties"
    file.write_text(text)
    answer = CliRunner().invoke(
        root, ["doctor", "migrate", str(file), "-o", "json", *arguments], catch_exceptions=False
    )
    rows = json.loads(answer.stdout)
    return answer.exit_code, {row["name"]: (row["state"], row["detail"]) for row in rows}


def test_a_plain_node_has_nothing_to_change(tmp_path: Path) -> None:
    assert differences(tmp_path, GOOD) == (0, {})


@pytest.mark.parametrize(
    ("line", "state", "code"),
    [
        ("num.io.threads=8", "ignored", 0),
        ("zookeeper.connect=localhost:2181", "removed", 0),
        ("delegation.token.max.lifetime.ms=1000", "missing", 0),
        ("nmu.partitions=3", "unknown", 0),
        ("authorizer.class.name=com.example.Mine", "refused", 7),
        ("num.partitions=many", "refused", 7),
    ],
)
def test_every_kind_of_difference(tmp_path: Path, line: str, state: str, code: int) -> None:
    exit_code, found = differences(tmp_path, f"{GOOD}{line}\n")
    name = line.partition("=")[0]
    assert (exit_code, {each: told[0] for each, told in found.items()}) == (code, {name: state})


def test_features_that_are_not_served_are_to_be_lowered() -> None:
    finalized = {name: high for name, (_, high) in supported_ranges().items()}
    finalized["metadata.version"] += 1
    finalized["future.version"] = 2
    found = {one.name: one for one in feature_differences(finalized, "one:9092")}
    assert set(found) - {"streams.version", "share.version"} == {
        "metadata.version",
        "future.version",
    }
    command = "kafka-features.sh --bootstrap-server one:9092"
    assert f"{command} disable --feature future.version" in found["future.version"].detail
    wanted = f"{command} downgrade --feature metadata.version={finalized['metadata.version'] - 1}"
    assert wanted in found["metadata.version"].detail


def test_the_cluster_is_asked(tmp_path: Path, kaa_node: BrokerProcess) -> None:
    arguments = ("--features", "-b", kaa_node.bootstrap_servers)
    _, found = differences(tmp_path, GOOD, *arguments)
    assert {told[0] for told in found.values()} <= {"lower"}
