"""How fast this machine is now, for budgets of processor time that must hold on any machine.

A budget is meant for a machine on which a bare interpreter starts within the processor time below.
Where that takes longer, because the machine is slower or others share its cores and caches, a
budget is longer by the same factor; it is never shorter. The least of several runs counts, since
what disturbs a run only ever adds to it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence

# How long a test waits for what should have come long ago. Nothing is measured by it: it only ends
# a test whose condition will never hold, so it is far longer than the busiest machine needs.
PATIENCE_SECONDS = 120

BARE_MILLISECONDS = 12.0
RUNS = 7


def processor_ms(arguments: Sequence[str]) -> float:
    """The processor time of a run of this interpreter, which finds what it compiled before."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{tempfile.gettempdir()}/kaa-bytecode"}
    # Where it is set, every run would compile every module.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000


def slowness(bare_ms: float | None = None) -> float:
    """By how much a budget is stretched here and now: 1, or more on a slow or busy machine."""
    if bare_ms is None:
        bare_ms = min(processor_ms(["-c", "pass"]) for _ in range(RUNS))
    return max(1.0, bare_ms / BARE_MILLISECONDS)
