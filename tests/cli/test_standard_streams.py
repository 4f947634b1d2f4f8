from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kaa.cli.client import EXIT_USAGE
from kaa.cli.root import EXIT_FAILED
from tests.support.broker_process import BrokerProcess


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["doctor"], ["topic", "-h"]])
def test_an_output_that_is_full_is_named(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", "from kaa.cli import main; main()", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert ended.returncode == EXIT_FAILED
    assert ended.stderr == "error: cannot write to standard output: No space left on device\n"


def test_streams_that_are_closed_take_everything() -> None:
    program = f"{sys.executable} -c 'from kaa.cli import main; main()' version -o json"
    for closed in (">&-", "<&- >&-", ">&- 2>&-"):
        ended = subprocess.run(
            f"{program} {closed}", shell=True, capture_output=True, check=False, timeout=60
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b""), closed


def test_text_of_others_does_not_steer_a_terminal() -> None:
    program = """
from kaa.cli.standard_streams import open_streams
import click, sys
from kaa.cli.output import styled
from kaa.cli.visible import steer
open_streams()
click.echo(styled("g\\x1b[2J", bold=True) + " \\x1b]0;title\\x07 \\x9b2J")
click.echo("error \\x1b[2J", err=True)
print("printed \\x1b[2J")
steer(sys.stdout, "\\x1b[H")
"""
    shown = {}
    for is_terminal in (True, False):
        reader, writer = os.openpty() if is_terminal else os.pipe()
        command = [sys.executable, "-c", program]
        environment = {**os.environ, "TERM": "xterm"}
        environment.pop("NO_COLOR", None)
        subprocess.run(
            command, stdout=writer, stderr=writer, env=environment, check=True, timeout=60
        )
        shown[is_terminal] = os.read(reader, 4096).decode().replace("\r\n", "\n")
        os.close(reader)
        os.close(writer)
    lines = shown[True].splitlines()
    assert lines == [
        "\x1b[1mg\\x1b[2J\x1b[0m \\x1b]0;title\\x07 \\x9b2J",
        "error \\x1b[2J",
        "printed \\x1b[2J",
        "\x1b[H",
    ]
    # A program that reads gets it as it is; click takes colours and the like away.
    assert "printed \x1b[2J" in shown[False]


def test_a_pipe_that_nobody_reads_is_told_once() -> None:
    """What could not be written is tried again at the end, when Python itself would complain."""
    program = """
from kaa.cli.standard_streams import open_streams
import sys
open_streams()
sys.stdout.write("text")
try:
    sys.stdout.flush()
except BrokenPipeError:
    sys.exit(7)
"""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [sys.executable, "-c", program],
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    finally:
        os.close(writer)
    assert (ended.returncode, ended.stderr) == (7, b"")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["version", "-o", "json"], 0), (["topci"], EXIT_USAGE), (["produce", "t", "x"], 0)],
)
def test_what_is_done_counts_where_standard_error_is_full(
    kaa_node: BrokerProcess, arguments: list[str], code: int
) -> None:
    if arguments[0] == "produce":
        arguments = [*arguments, "-b", kaa_node.bootstrap_servers]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", "from kaa.cli import main; main()", *arguments],
            stdout=subprocess.PIPE,
            stderr=full,
            check=False,
            timeout=60,
        )
    assert ended.returncode == code
