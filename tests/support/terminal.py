"""Runs the program `kaa` on a terminal of its own, as somebody who types sees it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import termios
import time
from collections.abc import Sequence

KAA = [sys.executable, "-c", "from kaa.cli import main; main()"]
_DEADLINE_SECONDS = 100
# Longer than it takes until progress is shown.
_TYPING_SECONDS = 0.7
END_OF_INPUT = b"\x04"
INTERRUPT = b"\x03"


def typed_into(
    arguments: Sequence[str], lines: Sequence[str], *, columns: int = 80, end: bytes = END_OF_INPUT
) -> str:
    """All that is shown while lines are typed, one at a time, and then `end`."""
    shown, _ = shown_and_code(arguments, lines, columns=columns, end=end)
    return shown


def shown_and_code(
    arguments: Sequence[str], lines: Sequence[str], *, columns: int = 80, end: bytes = END_OF_INPUT
) -> tuple[str, int]:
    """As `typed_into`, with the exit code."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, columns))
    environment = {name: text for name, text in os.environ.items() if name not in {"CI", "TERM"}}
    environment["TERM"] = "xterm"
    shown = b""
    with subprocess.Popen(
        [*KAA, *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
        start_new_session=True,
        # The terminal of the session, so that Ctrl-C becomes a signal.
        preexec_fn=_take_terminal,  # noqa: PLW1509 - one system call, which takes no lock.
    ) as process:
        os.close(slave)
        deadline = time.monotonic() + _DEADLINE_SECONDS
        try:
            shown += _read(master, deadline, quiet_seconds=_DEADLINE_SECONDS, pieces_max=1)
            shown += _read(master, deadline, quiet_seconds=_TYPING_SECONDS, pieces_max=5)
            for line in lines:
                os.write(master, line.encode() + b"\n")
                shown += _read(master, deadline, quiet_seconds=_TYPING_SECONDS)
            os.write(master, end)
            shown += _read(master, deadline, quiet_seconds=_DEADLINE_SECONDS)
            code = process.wait(max(0.0, deadline - time.monotonic()))
        finally:
            process.kill()
            os.close(master)
    return shown.decode(), code


def _take_terminal() -> None:
    import fcntl

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _read(
    master: int, deadline: float, *, quiet_seconds: float, pieces_max: int = 1_000_000
) -> bytes:
    """What is shown until nothing more comes for a while, or so many pieces have come."""
    shown = b""
    for _ in range(pieces_max):
        patience = min(quiet_seconds, max(0.0, deadline - time.monotonic()))
        if not select.select([master], [], [], patience)[0]:
            break
        try:
            piece = os.read(master, 65_536)
        except OSError:
            break  # The program has ended, and its terminal with it.
        if not piece:
            break
        shown += piece
    return shown
