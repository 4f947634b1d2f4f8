from __future__ import annotations

import sys
from io import StringIO

import click
import pytest

from kaa.cli.visible import for_stream, steer, visible, visible_but_styles, visible_bytes


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 漢 🙂", "plain ü 漢 🙂"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("a\rb\x00\x7f", "a\\rb\\x00\\x7f"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egnp\u2066", "\\u202egnp\\u2066"),
        ("a\tb\nc", "a\tb\nc"),
    ],
)
def test_what_steers_a_terminal_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible_bytes(text.encode()) == shown.encode()


def test_styles_of_the_program_pass() -> None:
    styled = click.style("bold", bold=True) + click.style("red", fg="red")
    assert visible_but_styles(styled) == styled
    # Hidden text is no style of the program.
    for steering in ("\x1b[8m", "\x1b[2J", "\x1b[1;1H", "\x1b]0;title\x07", "\x9b1m"):
        assert visible_but_styles(f"{styled}{steering}") == styled + visible(steering)


def test_what_is_meant_to_steer_does() -> None:
    stream = Terminal()
    steer(stream, "\x1b[H")
    assert stream.getvalue() == "\x1b[H"


def test_every_control_character_is_caught() -> None:
    for code in (*range(0x20), *range(0x7F, 0xA0)):
        escaped = visible(chr(code), one_line=True)
        assert escaped.startswith("\\")
        assert escaped.isprintable()


def test_one_line_stays_one() -> None:
    assert visible("a\tb\nc", one_line=True) == "a\\tb\\nc"


def test_bytes_that_are_no_text() -> None:
    assert visible_bytes(b"\xff\x1b") == b"\\xff\\x1b"


def test_pipes_get_it_as_it_is() -> None:
    assert for_stream("\x1b", StringIO()) == "\x1b"
    assert for_stream("\x1b", Terminal()) == "\\x1b"
    assert for_stream("x", sys.stdout) == "x"
