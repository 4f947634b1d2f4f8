from __future__ import annotations

from kaa.cli.client import EXIT_USAGE
from tests.cli.groups import kaa


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


def test_what_a_share_group_knows_itself_is_refused(bootstrap: str, topic_name: str) -> None:
    for options in (("--from", "end"), ("-e",), ("-g", "other"), ("-p", "0"), ("--grep", "x")):
        answer = kaa(bootstrap, "consume", topic_name, "--share", "g", *options)
        assert answer.exit_code == EXIT_USAGE, answer.output
