"""How late the machine itself is, so that its stalls are not taken for those of a broker.

On each processor sleeps a small process of real-time priority for a few milliseconds, again and
again. No ordinary process keeps it from waking up in time: where it wakes up late, the host has
taken the processor away, and every latency that was measured then has that in it. A stall of 80 ms
is one record of a hundred in eight seconds of a fixed rate, so that it alone makes the 99th
percentile. Without the right to such a priority there are no figures.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import Self

# Given how long to sleep and where; a line asks for the most since the last one.
_PROGRAM = """
import os, select, sys, time
seconds = float(sys.argv[1])
os.sched_setaffinity(0, {int(sys.argv[2])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
most = 0.0
while True:
    before = time.perf_counter()
    if select.select([0], [], [], seconds)[0]:
        if not os.read(0, 1):
            break
        os.write(1, b"%f\\n" % (most * 1e3))
        most = 0.0
    else:
        most = max(most, time.perf_counter() - before - seconds)
"""
_SLEEP_SECONDS = 0.002


class Lateness:
    """The sleepers, while a block runs."""

    def __init__(self) -> None:
        self._sleepers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        if hasattr(os, "sched_getaffinity"):
            self._sleepers = [
                subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_SLEEP_SECONDS), str(number)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
                for number in sorted(os.sched_getaffinity(0))
            ]
        return self

    def __exit__(self, *exception: object) -> None:
        for sleeper in self._sleepers:
            # Its end of input is its end.
            with contextlib.suppress(OSError):
                sleeper.communicate()
        self._sleepers = []

    def take(self) -> dict[str, float]:
        """The longest stall of any processor since the last call."""
        answers = [answer for sleeper in self._sleepers if (answer := _ask(sleeper))]
        return {"machine_late_max_ms": max(map(float, answers))} if answers else {}


def _ask(sleeper: subprocess.Popen[bytes]) -> bytes:
    assert sleeper.stdin is not None
    assert sleeper.stdout is not None
    try:
        sleeper.stdin.write(b"?")
        sleeper.stdin.flush()
    except OSError:
        return b""
    return sleeper.stdout.readline()
