"""Starting up is part of the experience: budgets over a bare interpreter, in milliseconds.

Processor time is measured, which on an idle machine is the time a user waits, and which other
processes disturb least. Bare and measured runs alternate; the least of each are compared, with the
budget stretched where a bare interpreter itself is slow (`tests.support.pace`).
"""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from tests.support.pace import RUNS, processor_ms, slowness

KAA = "from kaa.cli import main; main()"

COMPLETION = (
    "import os, sys; os.environ.update(_KAA_COMPLETE='bash_complete', COMP_WORDS=sys.argv[1],"
    f" COMP_CWORD=sys.argv[2]); del sys.argv[1:]; {KAA}"
)

# On a busy machine more runs come closer to what a start really takes.
ROUNDS = 4

BUDGETS_MS: dict[str, tuple[list[str], float]] = {
    "import kaa.wire": (["-c", "import kaa.wire"], 60),
    "kaa --help": (["-c", KAA, "--help"], 150),
    "kaa version": (["-c", KAA, "version"], 150),
    # Loads every command for the table in the script, once per installation; what a shell runs at
    # each TAB are the two below it.
    "kaa completion": (["-c", KAA, "completion", "bash"], 250),
    "completion of a command": (["-c", COMPLETION, "kaa ", "1"], 150),
    "completion of an option": (["-c", COMPLETION, "kaa topic describe --", "3"], 150),
}


@pytest.mark.parametrize("name", BUDGETS_MS)
def test_start_up_stays_within_its_budget(name: str) -> None:
    arguments, budget_ms = BUDGETS_MS[name]
    processor_ms(arguments)  # Writes the compiled files that every later run reads.
    measured_ms = bare_ms = math.inf
    for run in range(1, ROUNDS * RUNS + 1):
        bare_ms = min(bare_ms, processor_ms(["-c", "pass"]))
        measured_ms = min(measured_ms, processor_ms(arguments))
        if run >= RUNS and measured_ms - bare_ms < budget_ms:
            break
    cost_ms = measured_ms - bare_ms
    budget_ms *= slowness(bare_ms)
    assert cost_ms < budget_ms, f"{name}: {cost_ms:.0f} ms over a bare {bare_ms:.0f} ms"


FORBIDDEN_MODULES = {
    "import kaa.wire": ["asyncio", "click", "kaa.wire.messages", "logging", "socket"],
    "from kaa.cli.root import root": ["asyncio", "kaa.broker", "kaa.records", "rich", "socket"],
    "import kaa.cli.topic.topic, kaa.cli.group.group": [
        "asyncio",
        "kaa.client",
        "kaa.wire",
        "socket",
    ],
}


@pytest.mark.parametrize("statement", FORBIDDEN_MODULES)
def test_what_is_not_used_is_not_loaded(statement: str) -> None:
    program = f"import sys; {statement}; print(*sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    loaded = set(answer.stdout.split())
    assert loaded.isdisjoint(FORBIDDEN_MODULES[statement])
