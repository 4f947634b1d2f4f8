from __future__ import annotations

import subprocess
from pathlib import Path

from kaa.cli.client import EXIT_USAGE
from kaa.cli.root import EXIT_FAILED
from tests.cli.groups import kaa
from tests.support.broker_process import kaa_command
from tests.support.pace import PATIENCE_SECONDS


def test_records_are_accepted_when_printed(bootstrap: str, topic_name: str) -> None:
    assert kaa(bootstrap, "topic", "create", topic_name, "-p", "1").exit_code == 0
    assert kaa(bootstrap, "produce", topic_name, *"abcde").exit_code == 0
    group = f"share-{topic_name}"
    begin = ("share", "reset", group, "-t", topic_name, "--to", "start", "--execute")
    assert kaa(bootstrap, *begin).exit_code == 0
    words = ("consume", topic_name, "--share", group, "-f", "%s\\n")
    first = kaa(bootstrap, *words, "-n", "2")
    assert first.stdout.split() == ["a", "b"], first.output
    assert kaa(bootstrap, *words, "-n", "3").stdout.split() == ["c", "d", "e"]


def test_what_could_not_be_written_is_for_others(bootstrap: str, topic_name: str) -> None:
    assert kaa(bootstrap, "topic", "create", topic_name, "-p", "1").exit_code == 0
    assert kaa(bootstrap, "produce", topic_name, *"abcde").exit_code == 0
    group = f"share-{topic_name}"
    begin = ("share", "reset", group, "-t", topic_name, "--to", "start", "--execute")
    assert kaa(bootstrap, *begin).exit_code == 0
    words = ("consume", topic_name, "--share", group, "-f", "%s\\n", "-n", "5")
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            kaa_command(*words, "-b", bootstrap),
            stdout=full,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
    assert ended.returncode == EXIT_FAILED
    # Records that were acknowledged would never come.
    assert kaa(bootstrap, *words).stdout.split() == list("abcde")


def test_what_a_share_group_knows_itself_is_refused(bootstrap: str, topic_name: str) -> None:
    for options in (("--from", "end"), ("-e",), ("-g", "other"), ("-p", "0"), ("--grep", "x")):
        answer = kaa(bootstrap, "consume", topic_name, "--share", "g", *options)
        assert answer.exit_code == EXIT_USAGE, answer.output
