from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from kaa.cli.client import EXIT_USAGE
from kaa.cli.produce import InputError, NewRecord, read_json, read_lines
from kaa.cli.root import root


def kaa(bootstrap: str, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(root, [*arguments, "-b", bootstrap], input=stdin)


def test_lines() -> None:
    lines = [b"k:v", b":", b"plain"]
    assert list(read_lines(lines, b"key", b":", empty_is_null=True)) == [
        NewRecord(b"k", b"v"),
        NewRecord(None, None),
        NewRecord(b"key", b"plain"),
    ]
    assert list(read_lines([b"a:b"], None, None, empty_is_null=False)) == [NewRecord(None, b"a:b")]


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
    assert record == NewRecord(b"\xff", b"[1, 2]", (("h", b"x"), ("n", None)), 1, 5)
    for wrong in (b"{}", b"[]", b"nonsense", b'{"value": {"base64": "?"}}'):
        with pytest.raises(InputError, match="line 1 is no record"):
            list(read_json([wrong]))


def test_records_come_back(bootstrap: str, topic_name: str) -> None:
    answer = kaa(
        bootstrap, "produce", topic_name, "-K", "=", "-H", "h=1", "-o", "jsonl", stdin="a=1\nb=2\n"
    )
    assert answer.exit_code == 0, answer.output
    assert [json.loads(line)["offset"] for line in answer.stdout.splitlines()] == [0, 1]
    assert answer.stderr.endswith(f"2 of 2 records written to {topic_name}\n")
    read = kaa(bootstrap, "consume", topic_name, "-e", "-f", "%k:%s:%h;")
    assert read.stdout == "a:1:h=1;b:2:h=1;"


def test_wrong_input(bootstrap: str, topic_name: str) -> None:
    answer = kaa(bootstrap, "produce", topic_name, "--json", stdin='{"value": "fine"}\nwrong\n')
    assert answer.exit_code == EXIT_USAGE
    assert "line 2 is no record" in answer.stderr
    assert kaa(bootstrap, "consume", topic_name, "-e").stdout == "fine\n"
