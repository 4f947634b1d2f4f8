from __future__ import annotations

import json

from click.testing import CliRunner, Result

from kaa.cli.client import EXIT_NOT_FOUND, EXIT_USAGE
from kaa.cli.root import root


def kaa(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(root, [*arguments, "-b", bootstrap])


def test_by_pattern_only_with_the_count(bootstrap: str, topic_name: str) -> None:
    names = [f"{topic_name}-{letter}" for letter in "ab"]
    assert kaa(bootstrap, "topic", "create", *names, f"{topic_name}x").exit_code == 0
    pattern = f"{topic_name}-."
    plan = kaa(bootstrap, "topic", "delete", "--regex", pattern)
    assert plan.exit_code == 0, plan.output
    assert plan.stdout.count("would be deleted") == 2
    assert "add --yes --count 2 to do it" in plan.stderr
    for wrong in ((), ("--count", "3")):
        refused = kaa(bootstrap, "topic", "delete", "--regex", pattern, "--yes", *wrong)
        assert refused.exit_code == EXIT_USAGE
        assert "2 topics would be deleted" in refused.stderr
    assert kaa(bootstrap, "topic", "list", f"{topic_name}*", "-o", "name").stdout.count("\n") == 3
    done = kaa(bootstrap, "topic", "delete", "-r", pattern, "--yes", "--count", "2", "-o", "json")
    assert [row["name"] for row in json.loads(done.stdout)] == names
    left = kaa(bootstrap, "topic", "list", f"{topic_name}*", "-o", "name").stdout
    assert left == f"{topic_name}x\n"
    nothing = kaa(bootstrap, "topic", "delete", "--regex", pattern)
    assert nothing.exit_code == EXIT_NOT_FOUND
    assert f"no topic matches {pattern}" in nothing.stderr


def test_a_pattern_never_takes_topics_of_kafka(bootstrap: str, topic_name: str) -> None:
    assert kaa(bootstrap, "topic", "create", topic_name).exit_code == 0
    # The first group makes the topic of Kafka.
    moved = kaa(bootstrap, "group", "seek", "g", "-t", topic_name, "--to", "start", "--execute")
    assert moved.exit_code == 0, moved.output
    internal = kaa(bootstrap, "topic", "list", "--internal", "-o", "name").stdout
    assert "__consumer_offsets" in internal
    plan = kaa(bootstrap, "topic", "delete", "--regex", ".*|__.*")
    assert "__consumer_offsets" not in plan.stdout


def test_what_is_not_there_gets_a_step_that_fits(bootstrap: str, topic_name: str) -> None:
    for yes in ((), ("--yes",)):
        answer = kaa(bootstrap, "topic", "delete", topic_name, *yes)
        assert answer.exit_code == EXIT_NOT_FOUND
        assert "this one is gone already" in answer.stderr
        assert "create the topic" not in answer.stderr
        assert "add --yes" not in answer.stderr


def test_trim_takes_partitions_with_commas(bootstrap: str, topic_name: str) -> None:
    assert kaa(bootstrap, "topic", "create", topic_name, "-p", "4").exit_code == 0
    plan = kaa(
        bootstrap, "topic", "trim", topic_name, "--before", "end", "-p", "0,2-3", "-o", "json"
    )
    assert [row["partition"] for row in json.loads(plan.stdout)] == [0, 2, 3]
    wrong = kaa(bootstrap, "topic", "trim", topic_name, "--before", "end", "-p", "0,x")
    assert wrong.exit_code == EXIT_USAGE
    absent = kaa(bootstrap, "topic", "trim", topic_name, "--before", "end", "-p", "9")
    assert absent.exit_code == EXIT_NOT_FOUND
