from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner, Result

from kaa.cli.client import EXIT_NOT_FOUND, EXIT_USAGE
from kaa.cli.offset_range import Point
from kaa.cli.offsets import split
from kaa.cli.root import root

FIRST_MS = 1_577_836_800_000
"""The first moment of 2020 in UTC."""


def kaa(bootstrap: str, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(root, [*arguments, "-b", bootstrap], input=stdin)


def test_topics_and_times() -> None:
    assert split("orders", 0) == ("orders", None)
    assert split("orders@-1s", 5000) == ("orders", Point("time", 4000))
    assert split("orders@2020-01-01T00:00:00", 0) == ("orders", Point("time", FIRST_MS))
    for wrong in ("@1", "orders@", "orders@soon", "orders@-1h:-1m"):
        with pytest.raises(click.UsageError):
            split(wrong, 10**13)


def test_offsets_at_a_time(bootstrap: str, topic_name: str) -> None:
    settings = ("-p", "2", "-c", "retention.ms=-1")
    assert kaa(bootstrap, "topic", "create", topic_name, *settings).exit_code == 0
    lines = [
        json.dumps({"value": "x", "partition": 1, "timestamp_ms": FIRST_MS + n * 1000})
        for n in range(4)
    ]
    assert kaa(bootstrap, "produce", topic_name, "--json", stdin="\n".join(lines)).exit_code == 0
    at = f"{topic_name}@2020-01-01T00:00:02"
    rows = json.loads(kaa(bootstrap, "offsets", at, "-o", "json").stdout)
    assert [(row["partition"], row["end_offset"], row["offset"]) for row in rows] == [
        (0, 0, 0),
        (1, 4, 2),
    ]
    assert [row["timestamp_ms"] for row in rows] == [None, FIRST_MS + 2000]
    assert kaa(bootstrap, "offsets", at, "-p", "1", "-o", "name").stdout == "2\n"
    late = json.loads(kaa(bootstrap, "offsets", f"{topic_name}@today", "-o", "json").stdout)
    assert [row["offset"] for row in late] == [0, 4]
    plain = json.loads(kaa(bootstrap, "offsets", topic_name, "-o", "json").stdout)
    assert {row["offset"] for row in plain} == {None}
    assert kaa(bootstrap, "offsets", f"{topic_name}@soon").exit_code == EXIT_USAGE
    absent = kaa(bootstrap, "offsets", f"{topic_name}-absent", "--timeout", "1")
    assert absent.exit_code == EXIT_NOT_FOUND
