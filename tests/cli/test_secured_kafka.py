"""The commands against an Apache Kafka with TLS, SASL and permissions, as operators have it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kaa.cli.root import root
from tests.support.secured_kafka import Secured, sasl_kafka

__all__ = ["sasl_kafka"]

pytestmark = [pytest.mark.oracle, pytest.mark.xdist_group("sasl")]


def kaa(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(root, [*words, "--timeout", "30"], input=stdin)


def done(*words: str, stdin: str | None = None) -> str:
    answer = kaa(*words, stdin=stdin)
    assert answer.exit_code == 0, answer.stderr
    return answer.stdout


def properties(path: Path, settings: dict[str, str]) -> list[str]:
    """A file as Kafka's own tools take it, and the option that names it."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return ["--command-config", str(path)]


@pytest.fixture
def admin(sasl_kafka: Secured, tmp_path: Path) -> list[str]:
    return properties(tmp_path / "admin.properties", sasl_kafka.user("PLAIN", "admin", "secret"))


@pytest.fixture
def nobody(sasl_kafka: Secured, tmp_path: Path) -> list[str]:
    return properties(tmp_path / "me.properties", sasl_kafka.user("PLAIN", "me", "mine"))


def test_a_file_of_properties_for_every_command(admin: list[str], topic_name: str) -> None:
    assert "created" in done("topic", "create", topic_name, "-p", "2", *admin)
    assert topic_name in done("topic", "list", "-o", "name", *admin).split()
    done("produce", topic_name, "-K", ":", *admin, stdin="a:1\nb:2\n")
    assert sorted(done("consume", topic_name, "-e", "-f", "%k=%s\\n", *admin).split()) == [
        "a=1",
        "b=2",
    ]
    described = json.loads(done("topic", "describe", topic_name, "-o", "json", *admin))
    assert sum(one["end_offset"] for one in described[0]["partitions"]) == 2
    group = f"{topic_name}-group"
    assert len(done("consume", topic_name, "-g", group, "-n", "2", "-q", *admin).split()) == 2
    lag = json.loads(done("group", "lag", group, "-o", "json", *admin))
    assert sum(one["lag"] or 0 for one in lag) == 0
    done("group", "seek", group, "--to", "start", "--execute", *admin)
    done("topic", "alter", topic_name, "-c", "retention.ms=3600000", *admin)
    assert done("config", "get", "topic", topic_name, "retention.ms", *admin).strip() == "3600000"
    assert json.loads(done("cluster", "health", "-o", "json", *admin))["healthy"] is True
    assert done("cluster", "features", "-o", "name", *admin)
    assert json.loads(done("txn", "list", "-o", "json", *admin)) == []
    measured = done("perf", "produce", topic_name, "-n", "20", "-o", "json", *admin)
    assert json.loads(measured)["records"] == 20
    done("group", "delete", group, "--yes", *admin)
    done("topic", "delete", topic_name, "--yes", *admin)


def test_properties_one_by_one_and_in_a_profile(
    sasl_kafka: Secured, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = sasl_kafka.user("PLAIN", "admin", "secret")
    single = [word for pair in settings.items() for word in ("-X", "=".join(pair))]
    done("topic", "create", topic_name, *single)
    assert topic_name in done("topic", "list", "-o", "name", *single).split()
    monkeypatch.setenv("KAA_CONFIG_DIR", str(tmp_path / "config"))
    file = properties(tmp_path / "client.properties", settings)[1]
    answer = CliRunner().invoke(
        root, ["profile", "create", "secured", "--from-file", file, "--use"]
    )
    assert answer.exit_code == 0, answer.stderr
    assert "secret" not in answer.stdout
    assert done("topic", "describe", topic_name, "-o", "name").split() == [topic_name]
    done("topic", "delete", topic_name, "--yes", "--profile", "secured")


def test_a_trust_store_of_java(sasl_kafka: Secured, tmp_path: Path) -> None:
    store = tmp_path / "trust.p12"
    command = ["openssl", "pkcs12", "-export", "-nokeys", "-in", str(sasl_kafka.certificate)]
    subprocess.run(
        [*command, "-out", str(store), "-passout", "pass:changeit"], check=True, capture_output=True
    )
    settings = {
        **sasl_kafka.user("PLAIN", "admin", "secret"),
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(store),
        "ssl.truststore.password": "changeit",
    }
    assert done("cluster", "info", *properties(tmp_path / "client.properties", settings))


def test_a_wrong_password_and_a_broker_that_nobody_vouches_for(
    sasl_kafka: Secured, tmp_path: Path
) -> None:
    wrong = sasl_kafka.user("PLAIN", "me", "wrong")
    answer = kaa("topic", "list", *properties(tmp_path / "wrong.properties", wrong))
    assert answer.exit_code == 5
    assert "kafka error  SASL_AUTHENTICATION_FAILED (58)" in answer.stderr
    assert f"broker       {sasl_kafka.servers}" in answer.stderr
    assert "next         check user name, password" in answer.stderr
    assert "Traceback" not in answer.stderr
    unknown = {**wrong}
    del unknown["ssl.truststore.location"], unknown["ssl.truststore.type"]
    answer = kaa("topic", "list", *properties(tmp_path / "unknown.properties", unknown))
    assert answer.exit_code == 6
    assert "certificate" in answer.stderr
    assert "ssl.truststore" in answer.stderr


def test_what_is_not_allowed_is_told_with_the_permission(
    nobody: list[str], admin: list[str], topic_name: str
) -> None:
    done("topic", "create", topic_name, *admin)
    assert done("topic", "list", "-o", "name", *nobody) == ""
    for words, error in (
        (("topic", "describe", topic_name), "TOPIC_AUTHORIZATION_FAILED (29)"),
        (("produce", topic_name, "value"), "TOPIC_AUTHORIZATION_FAILED (29)"),
        (("consume", topic_name, "-e"), "TOPIC_AUTHORIZATION_FAILED (29)"),
        (("topic", "delete", topic_name, "--yes"), "TOPIC_AUTHORIZATION_FAILED (29)"),
        (("consume", topic_name, "-g", "g", "-e"), "AUTHORIZATION_FAILED"),
        (("group", "describe", "g"), "GROUP_AUTHORIZATION_FAILED (30)"),
        (("cluster", "quorum"), "CLUSTER_AUTHORIZATION_FAILED (31)"),
    ):
        answer = kaa(*words, *nobody)
        assert answer.exit_code == 5, (words, answer.stderr)
        assert error in answer.stderr, (words, answer.stderr)
        assert "  next         " in answer.stderr, (words, answer.stderr)
        assert "Traceback" not in answer.stderr
    done("topic", "delete", topic_name, "--yes", *admin)
