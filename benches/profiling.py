"""`scripts/bench --profile NAME`: where Kaa spends its time under a cell.

py-spy looks at the broker many times a second while the cell runs on it again and again; the flame
graph and the budget of single requests are kept under `benches/results/profile`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benches import budget
from benches.brokers import KAA
from benches.cells import find
from benches.loads import LOADS
from benches.report import RESULTS, number
from benches.scale import QUICK
from benches.stage import Stage

SECONDS: Final = 10
SAMPLES_PER_SECOND: Final = 200


def profile(name: str) -> int:
    try:
        cell = find([name])[0]
    except LookupError:
        print(f"no cell is named {name}; scripts/bench --list names them all")
        return 2
    folder = RESULTS / "profile"
    folder.mkdir(parents=True, exist_ok=True)
    graph = folder / f"{cell.name.replace('/', '-')}.svg"
    with tempfile.TemporaryDirectory(prefix="kaa-profile-") as work:
        stage = Stage(Path(work), QUICK)
        with stage:
            node = stage.node(KAA, cell.settings.get(KAA, {}))
            LOADS[cell.run](stage, cell, KAA)
            watcher = subprocess.Popen(
                [
                    *(_py_spy(), "record", "--pid", str(node.pid), "--output", str(graph)),
                    *("--duration", str(SECONDS), "--rate", str(SAMPLES_PER_SECOND)),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            while watcher.poll() is None:
                started = time.monotonic()
                run = LOADS[cell.run](stage, cell, KAA)
                figures = {key: run.figures.get(key) for key in cell.metrics}
                print(f"{cell.name}: {figures} in {time.monotonic() - started:.1f} s", flush=True)
            output = watcher.communicate()[0]
    if watcher.returncode != 0:
        print(f"py-spy could not watch the broker: {output.strip()[-500:]}")
    else:
        print(f"flame graph: {graph}")
    found = budget.measure()
    (folder / "budget.json").write_text(json.dumps(found, indent=1) + "\n")
    (folder / "budget.md").write_text(budget.markdown(found))
    for request, steps in found.items():
        print(f"\n{request}")
        for step, microseconds in steps.items():
            print(f"  {number(microseconds):>8} us  {step}")
    return watcher.returncode


def _py_spy() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy") or "py-spy"
