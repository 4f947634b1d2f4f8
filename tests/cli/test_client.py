from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kaa.cli.client import (
    EXIT_FAILED,
    EXIT_NOT_ALLOWED,
    EXIT_NOT_FOUND,
    EXIT_PARTLY,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    exit_code,
    load_settings,
    outcome_code,
    story_of,
)
from kaa.cli.output import show
from kaa.cli.root import root
from kaa.client.errors import (
    AuthenticationError,
    ClientError,
    KafkaError,
    RequestTimeoutError,
    SecurityConfigError,
    UnreachableError,
)
from kaa.wire.errors import Errors
from tests.support.ports import LOOPBACK, free_port

ROWS: list[dict[str, Any]] = [
    {"name": "a", "list": [1, 2], "none": None},
    {"name": "b", "list": [], "none": None},
]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("table", "NAME  LIST  NONE\na     1,2   -\nb     -     -\n"),
        ("name", "a\nb\n"),
        ("csv", 'name,list,none\na,"1,2",\nb,,\n'),
        ("wide", "NAME  LIST  NONE\na     1,2   -\nb     -     -\n"),
        ("yaml", "- name: a\n  list: [1, 2]\n  none: null\n- name: b\n  list: []\n  none: null\n"),
        ("jsonl", "".join(json.dumps(row) + "\n" for row in ROWS)),
    ],
)
def test_outputs(output: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(output, ["name", "list", "none"], ROWS)
    assert capsys.readouterr().out == expected


def test_settings_by_strength(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\nacks=1\nretries=3\n")
    settings = load_settings(None, ["acks=0"], file, None)
    assert settings["bootstrap.servers"] == "file:1"
    assert (settings["acks"], settings["retries"]) == ("0", "3")
    settings = load_settings("flag:1", [], file, 2.5)
    assert settings["bootstrap.servers"] == "flag:1"
    assert settings["default.api.timeout.ms"] == "2500"
    with pytest.raises(click.UsageError, match="NAME=VALUE"):
        load_settings(None, ["acks"], None, None)
    with pytest.raises(click.UsageError, match="cannot read"):
        load_settings(None, [], tmp_path / "absent", None)
    with pytest.raises(click.UsageError, match="above 0"):
        load_settings(None, [], None, 0)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION, "it"), EXIT_NOT_FOUND),
        (KafkaError(Errors.TOPIC_AUTHORIZATION_FAILED, "it"), EXIT_NOT_ALLOWED),
        (KafkaError(Errors.REQUEST_TIMED_OUT, "it"), EXIT_UNREACHABLE),
        (KafkaError(Errors.INVALID_REQUEST, "it"), EXIT_FAILED),
        (UnreachableError("h:1", "no"), EXIT_UNREACHABLE),
        (RequestTimeoutError("it"), EXIT_UNREACHABLE),
        (SecurityConfigError("it"), EXIT_USAGE),
        (AuthenticationError("it"), EXIT_NOT_ALLOWED),
        (ClientError("it"), EXIT_FAILED),
    ],
)
def test_exit_codes(error: ClientError, code: int) -> None:
    assert exit_code(error) == code
    assert outcome_code({"a": error}) == code
    assert outcome_code({"a": error, "b": None}) == EXIT_PARTLY


def test_nobody_listens() -> None:
    arguments = ["topic", "list", "-b", f"{LOOPBACK}:{free_port()}", "--timeout", "0.5"]
    answer = CliRunner().invoke(root, arguments)
    assert answer.exit_code == EXIT_UNREACHABLE
    assert answer.stdout == ""
    lines = [line.strip() for line in answer.stderr.splitlines()]
    assert lines[0].startswith("error: cannot connect to 127.0.0.1:")
    assert lines[0].endswith(": Connection refused")
    assert lines[1] == "kafka error  NETWORK_EXCEPTION (13)"
    assert lines[2].startswith("broker       127.0.0.1:")
    assert lines[3].startswith("next         start a broker there")


def test_the_log_of_the_client_has_its_level_back() -> None:
    log = logging.getLogger("kaa.client")
    before = log.level
    assert before != logging.ERROR
    test_nobody_listens()
    assert log.level == before


def test_every_error_of_a_broker_says_what_to_do_next() -> None:
    for error in Errors:
        if error is not Errors.NONE:
            story = story_of(KafkaError(error, "it"))
            assert story.kafka_error == f"{error.name} ({error.value})"
            assert story.next_step


def test_errors_name_the_brokers_that_were_asked(bootstrap: str, topic_name: str) -> None:
    answer = CliRunner().invoke(root, ["topic", "describe", topic_name, "-b", bootstrap])
    assert answer.exit_code == EXIT_NOT_FOUND
    assert f"  broker       one of those at {bootstrap}\n" in answer.stderr


def test_slips_of_the_finger_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    load_settings(None, ["security.protocl=SSL", "acks=all", "zzz=1"], None, None)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("warning: no client of Kafka has a setting security.protocl; ")
    assert first.endswith("did you mean security.protocol?")
    assert second == "warning: no client of Kafka has a setting zzz"


def test_wrong_settings_are_wrong_usage() -> None:
    answer = CliRunner().invoke(root, ["topic", "list", "-X", "retry.backoff.ms=soon"])
    assert answer.exit_code == EXIT_USAGE
    assert "retry.backoff.ms" in answer.stderr


def test_tls_to_a_listener_without_it_says_so(bootstrap: str) -> None:
    call = ["topic", "list", "-b", bootstrap, "-X", "security.protocol=SSL"]
    answer = CliRunner().invoke(root, [*call, "--timeout", "2"])
    assert answer.exit_code == EXIT_UNREACHABLE, answer.output
    assert "seems to speak plain text" in answer.stderr
    assert "set security.protocol to PLAINTEXT" in answer.stderr


def test_sasl_to_a_listener_without_it_says_so(bootstrap: str) -> None:
    call = ["topic", "list", "-b", bootstrap, "-X", "security.protocol=SASL_PLAINTEXT"]
    call += ["-X", "sasl.mechanism=PLAIN"]
    nobody = CliRunner().invoke(root, call)
    assert nobody.exit_code == EXIT_USAGE
    assert "PlainLoginModule required username=" in nobody.stderr
    user = 'sasl.jaas.config=x required username="u" password="p";'
    answer = CliRunner().invoke(root, [*call, "-X", user, "--timeout", "2"])
    assert answer.exit_code != 0
    assert "the listener takes no users: set security.protocol to PLAINTEXT" in answer.stderr
