from __future__ import annotations

import json

from click.testing import CliRunner, Result

from kaa.cli.client import EXIT_USAGE
from kaa.cli.root import root
from kaa.cli.tail import RateLimit, Seen
from tests.support.broker_process import BrokerProcess
from tests.support.terminal import typed_into


def kaa(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(root, [*arguments, "-b", bootstrap])


def test_throttle_lets_so_many_through_per_second() -> None:
    throttle = RateLimit(2)
    assert [throttle.take(10.0 + n / 10) for n in range(4)] == [True, True, False, False]
    assert throttle.left_out == 2
    assert throttle.take(11.0)
    assert throttle.unreported == 2


def test_summary() -> None:
    assert Seen(3, 0, 2.0).text() == "3 records in 2.0 s (2/s)"
    assert Seen(1, 0, 2.0).text() == "1 record in 2.0 s (0/s)"
    assert Seen(3, 7, 2.0).text() == "3 records, 7 not shown in 2.0 s (5/s)"


def test_records_as_they_are(bootstrap: str, topic_name: str) -> None:
    assert kaa(bootstrap, "produce", topic_name, "one", "two", "-k", "key").exit_code == 0
    answer = kaa(bootstrap, "tail", topic_name, "--from", "start", "-n", "2")
    assert answer.exit_code == 0, answer.output
    first, second = answer.stdout.splitlines()
    assert first.endswith(f"Z  {topic_name}-0@0  key  one")
    assert second.endswith(f"{topic_name}-0@1  key  two")
    assert f"watching 1 partition of {topic_name}" in answer.stderr
    assert answer.stderr.splitlines()[-1].startswith("2 records in ")
    answer = kaa(
        bootstrap, "tail", topic_name, "--from", "start", "--grep", "tw.", "-n", "1", "-o", "jsonl"
    )
    assert json.loads(answer.stdout)["value"] == "two"


def test_ends_by_time_and_takes_patterns(bootstrap: str, topic_name: str) -> None:
    assert kaa(bootstrap, "produce", topic_name, "a", "b", "c").exit_code == 0
    pattern = topic_name.replace("-", ".")
    arguments = ["tail", "--regex", pattern, "--from", "start", "--rate", "1", "--seconds", "0.4"]
    answer = kaa(bootstrap, *arguments, "-f", "%s")
    assert answer.exit_code == 0, answer.output
    assert answer.stdout[0] == "a"
    assert "not shown" in answer.stderr


def test_wrong_use(bootstrap: str) -> None:
    assert kaa(bootstrap, "tail", "x", "--from", "soon").exit_code == EXIT_USAGE
    assert kaa(bootstrap, "tail", "--regex", "no-such-topic-.*").exit_code == EXIT_USAGE
    assert kaa(bootstrap, "tail", "x", "--grep", "(").exit_code == EXIT_USAGE


EVIL = "\x1b]0;owned\x07\x1b[2Jnext\nline\u202e"


def test_records_cannot_steer_the_terminal(kaa_node: BrokerProcess, topic_name: str) -> None:
    servers = kaa_node.bootstrap_servers
    record = json.dumps({"key": EVIL, "value": EVIL, "headers": [["h", EVIL]]})
    answer = CliRunner().invoke(root, ["produce", topic_name, "--json", "-b", servers], record)
    assert answer.exit_code == 0, answer.output
    calls: list[list[str]] = [
        ["tail", topic_name, "--from", "start", "-n", "1", "--no-color"],
        ["consume", topic_name, "-e"],
        ["consume", topic_name, "-e", "-o", "wide"],
        ["consume", topic_name, "-e", "-o", "csv"],
        ["consume", topic_name, "-e", "-f", "%k %s %h\\n"],
    ]
    for call in calls:
        shown = typed_into([*call, "-b", servers], [])
        assert "\\x1b]0;owned\\x07\\x1b[2Jnext" in shown, (call, shown)
        assert "\x1b]0" not in shown
        assert "\x1b[2J" not in shown
        assert "\u202e" not in shown
    # A pipe gets the bytes back.
    piped = CliRunner().invoke(root, ["consume", topic_name, "-e", "-b", servers])
    assert piped.stdout == f"{EVIL}\n"
