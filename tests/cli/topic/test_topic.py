from __future__ import annotations

import json
import time

from click.testing import CliRunner, Result

from kaa.cli.client import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_PARTLY, EXIT_USAGE
from kaa.cli.root import root


def kaa(bootstrap: str, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(root, [*arguments, "-b", bootstrap], input=stdin)


def test_life_of_a_topic(bootstrap: str, topic_name: str) -> None:
    answer = kaa(bootstrap, "topic", "create", topic_name, "-p", "2", "-c", "retention.ms=9")
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.split()[:3] == ["NAME", "STATUS", "ERROR"]
    again = kaa(bootstrap, "topic", "create", topic_name)
    assert again.exit_code == EXIT_NOT_FOUND
    assert "TOPIC_ALREADY_EXISTS (36)" in again.stderr
    assert f"  broker       {bootstrap}" in again.stderr
    assert "  next         " in again.stderr
    assert kaa(bootstrap, "topic", "create", topic_name, "--if-not-exists").exit_code == 0
    listed = kaa(bootstrap, "topic", "list", "-o", "name")
    assert topic_name in listed.stdout.splitlines()
    assert kaa(bootstrap, "topic", "add-partitions", topic_name, "--add", "1").exit_code == 0
    plan = kaa(bootstrap, "topic", "delete", topic_name, "absent-topic")
    assert plan.exit_code == EXIT_PARTLY
    assert "nothing was deleted" in plan.stderr
    gone = kaa(bootstrap, "topic", "delete", topic_name, "--yes", "-o", "json")
    assert json.loads(gone.stdout) == [{"name": topic_name, "status": "deleted", "error": None}]


def test_describe_and_trim(bootstrap: str, topic_name: str) -> None:
    kaa(bootstrap, "topic", "create", topic_name, "-p", "1", "-c", "retention.ms=9000000")
    assert kaa(bootstrap, "produce", topic_name, "a", "b", "c").exit_code == 0
    (described,) = json.loads(kaa(bootstrap, "topic", "describe", topic_name, "-o", "json").stdout)
    assert described["configs"]["retention.ms"] == "9000000"
    (partition,) = described["partitions"]
    assert (partition["first_offset"], partition["end_offset"]) == (0, 3)
    table = kaa(bootstrap, "topic", "describe", topic_name).stdout
    assert "PARTITION  LEADER" in table
    assert "retention.ms=9000000" in table
    plan = kaa(bootstrap, "topic", "trim", topic_name, "--before", "2")
    assert plan.stdout.split()[-4:] == ["0", "0", "2", "3"]
    assert "nothing was deleted" in plan.stderr
    beyond = kaa(bootstrap, "topic", "trim", topic_name, "--before", "4", "--yes")
    assert beyond.exit_code == EXIT_USAGE
    assert f"{topic_name}-0 ends at 3, before 4" in beyond.stderr
    done = kaa(bootstrap, "topic", "trim", topic_name, "--before", "end", "--yes", "-o", "jsonl")
    assert json.loads(done.stdout)["new_first_offset"] == 3


def test_wrong_use(bootstrap: str, topic_name: str) -> None:
    absent = kaa(bootstrap, "topic", "describe", topic_name)
    assert absent.exit_code == EXIT_NOT_FOUND
    assert "UNKNOWN_TOPIC_OR_PARTITION (3)" in absent.stderr
    assert kaa(bootstrap, "topic", "add-partitions", topic_name).exit_code == EXIT_USAGE
    wrong = kaa(bootstrap, "topic", "trim", topic_name, "--before", "x")
    assert wrong.exit_code == EXIT_USAGE


def test_alter(bootstrap: str, topic_name: str) -> None:
    kaa(bootstrap, "topic", "create", topic_name, "-c", "retention.ms=9")
    alter = ["topic", "alter", topic_name]
    checked = kaa(bootstrap, *alter, "-c", "cleanup.policy=nosuch", "--dry-run")
    assert checked.exit_code == EXIT_FAILED
    assert "INVALID_CONFIG" in checked.stderr
    arguments = ["-c", "cleanup.policy=compact", "-d", "retention.ms", "-o", "json"]
    done = kaa(bootstrap, *alter, *arguments)
    assert json.loads(done.stdout) == [{"name": topic_name, "status": "changed", "error": None}]
    # A broker may need a moment until it shows what was changed.
    deadline = time.monotonic() + 20
    expected, shown = {"cleanup.policy": "compact"}, None
    while shown != expected and time.monotonic() < deadline:
        answer = kaa(bootstrap, "topic", "describe", topic_name, "-o", "json")
        shown = json.loads(answer.stdout)[0]["configs"]
    assert shown == expected
    assert kaa(bootstrap, *alter).exit_code == EXIT_USAGE
    assert (
        kaa(bootstrap, "topic", "alter", f"{topic_name}-x", *arguments).exit_code == EXIT_NOT_FOUND
    )
