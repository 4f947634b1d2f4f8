from __future__ import annotations

import subprocess
import sys
import time

from benches.lateness import Lateness

URGENT = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"


def test_stalls_are_told_where_they_can_be_seen() -> None:
    tried = subprocess.run([sys.executable, "-c", URGENT], check=False, capture_output=True)
    deadline = time.monotonic() + 10
    most = 0.0
    with Lateness() as lateness:
        while most == 0 and time.monotonic() < deadline and (seen := lateness.take()):
            most = seen["machine_late_max_ms"]
    # Nobody wakes up to the nanosecond.
    assert (most > 0) == (tried.returncode == 0)
    assert lateness.take() == {}, "the sleepers have ended"
