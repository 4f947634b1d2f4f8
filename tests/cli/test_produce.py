from __future__ import annotations

import json
import os
import re

import click
import pytest
from click.testing import CliRunner, Result

from kaa.cli.client import (
    EXIT_FAILED,
    EXIT_NOT_FOUND,
    EXIT_PARTLY,
    EXIT_USAGE,
)
from kaa.cli.produce import (
    InputError,
    InputRecord,
    read_headers,
    read_json,
    read_lines,
    written_text,
)
from kaa.cli.root import EXIT_INTERRUPTED, root
from kaa.testing import Broker
from tests.support.broker_process import BrokerProcess
from tests.support.terminal import INTERRUPT, shown_and_code, typed_into


def kaa(bootstrap: str, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(root, [*arguments, "-b", bootstrap], input=stdin)


def test_lines() -> None:
    lines = [b"k:v", b":", b"plain"]
    assert list(read_lines(lines, b"key", b":", empty_is_null=True)) == [
        InputRecord(b"k", b"v"),
        InputRecord(None, None),
        InputRecord(b"key", b"plain"),
    ]
    assert list(read_lines([b"a:b"], None, None, empty_is_null=False)) == [
        InputRecord(None, b"a:b")
    ]


def test_json_lines() -> None:
    line = json.dumps(
        {
            "key": {"base64": "/w=="},
            "value": [1, 2],
            "headers": [["h", "x"], ["n", None]],
            "partition": 1,
            "timestamp_ms": 5,
        }
    ).encode()
    (record,) = read_json([line, b""])
    assert record == InputRecord(b"\xff", b"[1, 2]", (("h", b"x"), ("n", None)), 1, 5)
    for wrong in (
        *(b"{}", b"[]", b"nonsense", b'{"value": {"base64": "?"}}'),
        *(b'{"value": "v", "partition": "1"}', b'{"value": "v", "timestamp_ms": -1}'),
    ):
        with pytest.raises(InputError, match="line 1 is not a record"):
            list(read_json([wrong]))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{}", "it has no value"),
        (
            b'{"value": "v", "timestamp": "yesterday"}',
            "it has unknown fields: timestamp; it may have",
        ),
        (
            b'[{"value": "v"}]',
            "it is a list and not an object; write one object per line, as -o jso",
        ),
        (b"[", "write one object per line, as -o jsonl does"),
        (b"3", "it is a int and not an object"),
        (b'{"value": {"hex": "00"}}', '{"hex": "00"} has no text "base64"'),
        (b'{"value": "v", "headers": [["a"]]}', '["a"] is not a pair of a name and a value'),
        (b'{"value": "v", "headers": {"a": "b"}}', "headers are a list of pairs"),
    ],
)
def test_a_line_that_is_no_record_says_why(line: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=re.escape(reason)):
        list(read_json([line]))


def test_bytes_of_the_shell_are_written_as_they_are() -> None:
    given = os.fsdecode(b"k\x9b")
    with Broker() as broker:
        topic = broker.topic("t")
        answer = kaa(broker.bootstrap_servers, "produce", "t", given, "-k", given)
        assert answer.exit_code == 0, answer.output
        (record,) = topic.records()
        assert (record.key, record.value) == (b"k\x9b", b"k\x9b")


def test_records_come_back(bootstrap: str, topic_name: str) -> None:
    answer = kaa(
        bootstrap, "produce", topic_name, "-K", "=", "-H", "h=1", "-o", "jsonl", stdin="a=1\nb=2\n"
    )
    assert answer.exit_code == 0, answer.output
    assert [json.loads(line)["offset"] for line in answer.stdout.splitlines()] == [0, 1]
    assert answer.stderr.endswith(f"2 records written to {topic_name}\n")
    read = kaa(bootstrap, "consume", topic_name, "-e", "-f", "%k:%s:%h;")
    assert read.stdout == "a:1:h=1;b:2:h=1;"


def test_headers_may_come_twice_and_be_null(bootstrap: str, topic_name: str) -> None:
    headers = ["-H", "h=1", "-H", "h= 2", "-H", "n", "-H", "e="]
    assert kaa(bootstrap, "produce", topic_name, "value", *headers).exit_code == 0
    read = kaa(bootstrap, "consume", topic_name, "-e", "-o", "jsonl")
    found = json.loads(read.stdout)["headers"]
    assert found == [["h", "1"], ["h", " 2"], ["n", None], ["e", ""]]
    with pytest.raises(click.UsageError, match="NAME=VALUE"):
        read_headers(["=1"])


def test_records_that_are_refused(bootstrap: str, topic_name: str) -> None:
    """All of them, or some: the exit code tells which."""
    settings = ["-p", "2", "-c", "cleanup.policy=compact"]
    created = kaa(bootstrap, "topic", "create", topic_name, *settings)
    assert created.exit_code == 0, created.output
    both = kaa(bootstrap, "produce", topic_name, "--json", stdin=COMPACTED)
    assert both.exit_code == EXIT_PARTLY, both.output
    assert f"1 of 2 records written to {topic_name}" in both.stderr
    assert "kafka error  INVALID_RECORD (87)" in both.stderr
    assert kaa(bootstrap, "produce", topic_name, "without a key").exit_code == EXIT_FAILED


COMPACTED = """
{"value": "without a key", "partition": 0}
{"key": "k", "value": "with", "partition": 1}
"""


def test_wrong_input(bootstrap: str, topic_name: str) -> None:
    answer = kaa(bootstrap, "produce", topic_name, "--json", stdin='{"value": "fine"}\nwrong\n')
    assert answer.exit_code == EXIT_PARTLY
    assert f"1 record written to {topic_name}" in answer.stderr
    assert "line 2 is not a record" in answer.stderr
    nothing = kaa(bootstrap, "produce", topic_name, "--json", stdin="wrong\n")
    assert nothing.exit_code == EXIT_USAGE
    empty = kaa(bootstrap, "produce", topic_name, "-K", "", stdin="a\tb\n")
    assert empty.exit_code == EXIT_USAGE
    assert "--key-delimiter is empty" in empty.stderr
    assert kaa(bootstrap, "consume", topic_name, "-e").stdout == "fine\n"


def test_who_makes_a_topic_is_told(bootstrap: str, topic_name: str) -> None:
    refused = kaa(bootstrap, "produce", topic_name, "a", "--no-create")
    assert refused.exit_code == EXIT_NOT_FOUND, refused.output
    assert "UNKNOWN_TOPIC_OR_PARTITION" in refused.stderr
    assert kaa(bootstrap, "topic", "describe", topic_name).exit_code == EXIT_NOT_FOUND
    made = kaa(bootstrap, "produce", topic_name, "a")
    assert made.exit_code == 0, made.output
    assert f"topic {topic_name} was not there and has been created with " in made.stderr
    again = kaa(bootstrap, "produce", topic_name, "b", "--no-create")
    assert again.exit_code == 0
    assert again.stderr == f"1 record written to {topic_name}\n"


def test_how_many_were_written() -> None:
    assert written_text(1, 1) == "1 record"
    assert written_text(0, 1) == "0 of 1 record"
    assert written_text(1, 2) == "1 of 2 records"


def test_progress_stays_out_of_what_is_typed(kaa_node: BrokerProcess, topic_name: str) -> None:
    """Lines are typed slowly into a terminal: none of them meets a line of progress."""
    shown = typed_into(["produce", topic_name, "-b", kaa_node.bootstrap_servers], ["one", "two"])
    assert "2 records written" in shown
    assert "writing" not in shown


def test_who_interrupts_typing_has_sent_what_was_typed(
    kaa_node: BrokerProcess, topic_name: str
) -> None:
    command = ["produce", topic_name, "-b", kaa_node.bootstrap_servers]
    shown, code = shown_and_code(command, ["one", "two"], end=INTERRUPT)
    assert "2 records written" in shown
    # Nothing comes after it: no traceback, and no complaint of the interpreter.
    assert shown.rstrip().endswith(f"written to {topic_name}")
    assert code == EXIT_INTERRUPTED
