from __future__ import annotations

import json
import sys
from typing import Any

import click
import pytest

from kaa.cli.output import (
    NO_COLOR_KEY,
    print_json,
    print_rows,
    print_table,
    show,
    show_one,
    shows_colors,
    size_text,
    yaml_text,
)

ROWS: list[dict[str, Any]] = [
    {"name": "a", "size_bytes": 2048, "is_on": True, "more": {"x": None}},
    {"name": "bb", "size_bytes": None, "is_on": False, "more": {}},
]


class Terminal:
    """Standard output that says it is a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True


def test_table_columns_are_as_wide_as_their_widest_cell(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["part", "x"], [["java", "17"], ["python", ""]])
    assert capsys.readouterr().out == "PART    X\njava    17\npython\n"


def test_row_of_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        print_table(["one"], [["1", "2"]])


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1]})
    assert json.loads(capsys.readouterr().out) == {"a": [1]}


def test_numbers_end_at_the_same_place(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(["name", "size_bytes", "is_on", "more"], ROWS)
    assert capsys.readouterr().out.splitlines() == [
        "NAME  SIZE-BYTES  IS-ON  MORE",
        "a           2048  yes    x=-",
        "bb             -  no     -",
    ]


def test_sizes_have_units_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    print_rows(["name", "size_bytes"], ROWS)
    assert terminal.text.splitlines() == ["NAME     SIZE", "a     2.0 KiB", "bb          -"]


def test_colors_only_where_they_are_welcome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert shows_colors(Terminal())  # type: ignore[arg-type]
    monkeypatch.setenv("TERM", "dumb")
    assert not shows_colors(Terminal())  # type: ignore[arg-type]
    monkeypatch.setenv("TERM", "xterm")
    with click.Context(click.Command("any")) as context:
        assert shows_colors(Terminal())  # type: ignore[arg-type]
        context.meta[NO_COLOR_KEY] = True
        assert not shows_colors(Terminal())  # type: ignore[arg-type]
    monkeypatch.setenv("NO_COLOR", "")
    assert not shows_colors(Terminal())  # type: ignore[arg-type]


def test_wide_adds_columns_and_the_document_takes_the_place_of_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for output, expected in (
        ("table", "NAME\na\nbb\n"),
        ("wide", "NAME  IS-ON\na     yes\nbb    no\n"),
        ("csv", "name,is_on\na,yes\nbb,no\n"),
        ("yaml", "whole: true\n"),
        ("json", '{\n  "whole": true\n}\n'),
    ):
        show(output, ["name"], ROWS, wide=["is_on"], document={"whole": True})
        assert capsys.readouterr().out == expected
    show_one("yaml", {"a": 1, "b": None}, "a")
    assert capsys.readouterr().out == "a: 1\nb: null\n"
    show_one("name", {"a": 1, "b": None}, "b")
    assert capsys.readouterr().out == "-\n"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3 << 29, "1.5 GiB"),
        (1 << 62, "4096.0 PiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text


def test_yaml() -> None:
    value = {
        "plain": "orders-1",
        "reserved": "No",
        "number": "17",
        "text": "a: b\n'c'",
        "empty": {"list": [], "map": {}, "none": None},
        "items": [{"a": 1.5, "b": [True, "x"]}, [[1], 2], "z"],
        "odd key:": "",
    }
    assert yaml_text(value).splitlines() == [
        "plain: orders-1",
        'reserved: "No"',
        'number: "17"',
        "text: \"a: b\\n'c'\"",
        "empty:",
        "  list: []",
        "  map: {}",
        "  none: null",
        "items:",
        "- a: 1.5",
        "  b: [true, x]",
        "- - [1]",
        "  - 2",
        "- z",
        '"odd key:": ""',
    ]
    assert yaml_text([]) == "[]\n"
