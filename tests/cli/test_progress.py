from __future__ import annotations

import os
import termios
from io import StringIO

import click
import pytest

from kaa.cli.output import NO_PROGRESS_KEY
from kaa.cli.progress import Progress, columns_of, duration_text, is_welcome, progress_line


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_line_with_and_without_a_total() -> None:
    line = progress_line("reading", "records", 250, 1000, 5.0, 100)
    assert line == f"reading {'━' * 6}{'─' * 18}  25%  250 of 1,000 records, 50/s, 15 s left"
    assert progress_line("reading", "records", 10, None, 2.0, 79) == "reading 10 records, 5/s"
    assert progress_line("reading", "records", 0, 10, 0.0, 100).endswith("0/s, 0 s left")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3700, "1 h 1 min"), (90_000, "1 d 1 h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_shown_after_half_a_second_and_gone_at_the_end() -> None:
    stream, clock = Terminal(), Clock()
    with Progress(
        "reading", "records", 10, stream=stream, monotonic=clock, is_shown=True
    ) as progress:
        progress.advance()
        assert stream.getvalue() == ""
        clock.now += 0.6
        progress.advance()
        assert "2 of 10 records" in stream.getvalue()
        shown = stream.getvalue()
        clock.now += 0.05
        progress.advance()
        assert stream.getvalue() == shown
    assert stream.getvalue().endswith("\r\x1b[K")
    assert progress.done == 3


@pytest.mark.parametrize("columns", [1, 10, 40, 60, 80, 120])
@pytest.mark.parametrize("total", [None, 10**12])
def test_a_line_fits_its_terminal(columns: int, total: int | None) -> None:
    line = progress_line("reading", "records", 10**9, total, 5000.0, columns)
    assert len(line) <= columns
    assert line.startswith("reading"[:columns])


def test_the_bar_goes_before_the_counts() -> None:
    line = progress_line("reading", "records", 250, 1000, 5.0, 60)
    assert line == "reading 25%  250 of 1,000 records, 50/s, 15 s left"


def test_the_width_is_that_of_the_terminal_as_it_is_now() -> None:
    master, slave = os.openpty()
    with os.fdopen(slave, "w") as stream, os.fdopen(master, "rb"):
        termios.tcsetwinsize(slave, (24, 33))
        assert columns_of(stream) == 32
        clock = Clock()
        with Progress("r", "records", 10**6, stream=stream, monotonic=clock) as progress:
            progress.is_shown = True
            clock.now += 5
            progress.advance()
            shown = os.read(master, 4096).decode()
            assert len(shown.replace("\x1b[K", "").strip("\r")) <= 32
            termios.tcsetwinsize(slave, (24, 12))
            clock.now += 5
            progress.advance()
            shown = os.read(master, 4096).decode()
            assert len(shown.replace("\x1b[K", "").strip("\r")) <= 11
    assert columns_of(StringIO()) == 79


def test_only_on_terminals() -> None:
    assert is_welcome(Terminal(), {})
    assert not is_welcome(StringIO(), {})
    for environment in ({"TERM": "dumb"}, {"CI": "true"}, {"KAA_NO_PROGRESS": "1"}):
        assert not is_welcome(Terminal(), environment)
    stream, clock = StringIO(), Clock()
    with Progress("reading", "records", stream=stream, monotonic=clock) as progress:
        clock.now += 5
        progress.advance()
    assert stream.getvalue() == ""


def test_an_option_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "KAA_NO_PROGRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert Progress("reading", "records", stream=Terminal()).is_shown
    with click.Context(click.Command("any")) as context:
        assert Progress("reading", "records", stream=Terminal()).is_shown
        context.meta[NO_PROGRESS_KEY] = True
        assert not Progress("reading", "records", stream=Terminal()).is_shown
