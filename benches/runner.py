"""Runs cells: side after side, round after round, within the time box.

Which side begins changes with every round, so that what the machine does meanwhile hits all alike.
A side that cannot run a cell says why, and the cell stays in the report.

When every cell has had its rounds, those that are even get more of them as long as there is time:
one round each by turns, until they are decided or have had `ROUNDS_MAX`.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benches.brokers import KAA, StartFailedError
from benches.cells import METRICS
from benches.driving import DriverFailedError
from benches.loads import LOADS
from benches.stage import Stage
from benches.timebox import TimeBox
from benches.verdicts import EVEN, ROUNDS_MAX, judge, spread
from tests.oracle.environment import OracleUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benches.cells import Cell
    from benches.scale import Scale
    from benches.stage import Run
    from benches.verdicts import Spread, Verdict

# What a broker, a driver or a tool that fails is seen by; all else is a fault of the bench.
_FAILURES: Final = (
    AssertionError,
    DriverFailedError,
    EOFError,
    OracleUnavailableError,
    OSError,
    StartFailedError,
    subprocess.SubprocessError,
)
# Disks and caches come to rest between two runs.
_PAUSE_SECONDS: Final = 0.05


@dataclass(slots=True)
class Outcome:
    """What was measured of one cell."""

    cell: Cell
    # By side, in the order of the rounds.
    runs: dict[str, list[Run]] = field(default_factory=dict)
    # By side, why it was not measured.
    reasons: dict[str, str] = field(default_factory=dict)
    # What the last round took, or is expected to take.
    round_seconds: float = 0.0

    def values(self, side: str, metric: str) -> list[float]:
        return [run.figures[metric] for run in self.runs.get(side, ()) if metric in run.figures]

    def spread(self, side: str, metric: str) -> Spread | None:
        values = self.values(side, metric)
        return spread(values) if values else None

    def verdict(self, metric: str, peer: str) -> Verdict | None:
        ours, theirs = self.values(KAA, metric), self.values(peer, metric)
        if not ours or not theirs:
            return None
        return judge(ours, theirs, higher_is_better=METRICS[metric].higher_is_better)

    @property
    def is_even(self) -> bool:
        """Whether more rounds may decide the cell."""
        peer = next(side for side in self.cell.sides if side != KAA)
        verdict = self.verdict(self.cell.metrics[0], peer)
        return verdict is not None and verdict.word == EVEN and not self.reasons


@dataclass(slots=True)
class Results:
    """A whole run."""

    scale: Scale
    box: TimeBox
    outcomes: list[Outcome]
    seconds: float
    memory: dict[str, list[tuple[float, float]]]


def run_cells(
    cells: Sequence[Cell],
    scale: Scale,
    report: Callable[[Cell, int, str], None],
    box_seconds: float | None = None,
) -> Results:
    started = time.monotonic()
    box = TimeBox(scale.box_seconds if box_seconds is None else box_seconds)
    outcomes = [Outcome(cell) for cell in cells]
    with (
        tempfile.TemporaryDirectory(prefix="kaa-bench-", ignore_cleanup_errors=True) as folder,
        Stage(Path(folder), scale) as stage,
    ):
        try:
            for outcome in outcomes:
                _run_cell(stage, outcome, box, report)
            for number in range(scale.rounds, ROUNDS_MAX):
                for outcome in outcomes:
                    if outcome.is_even and outcome.round_seconds <= box.left_seconds:
                        _run_round(stage, outcome, number, report)
        except KeyboardInterrupt:
            # What was measured is worth keeping.
            for outcome in outcomes:
                if not outcome.runs and not outcome.reasons:
                    box.cut(outcome.cell.name, "interrupted")
                    outcome.reasons = dict.fromkeys(outcome.cell.sides, "interrupted")
                elif min(map(len, outcome.runs.values()), default=0) < scale.rounds:
                    box.cuts.setdefault(outcome.cell.name, "interrupted between rounds")
        memory = stage.memory
    return Results(scale, box, outcomes, time.monotonic() - started, memory)


def _run_cell(
    stage: Stage, outcome: Outcome, box: TimeBox, report: Callable[[Cell, int, str], None]
) -> None:
    cell, scale = outcome.cell, stage.scale
    # Estimates are those of the short runs; longer ones take longer, but start as quickly.
    factor = max(1.0, scale.seconds / 4)
    outcome.round_seconds = cell.estimate_seconds * factor * len(cell.sides)
    if not box.admits(cell.name, outcome.round_seconds * scale.rounds):
        outcome.reasons = dict.fromkeys(cell.sides, "the time box")
        return
    for number in range(scale.rounds):
        if number and not box.admits(cell.name, outcome.round_seconds):
            box.cut(cell.name, f"ended after {number} of {scale.rounds} rounds")
            return
        _run_round(stage, outcome, number, report)
        if KAA in outcome.reasons:
            return


def _run_round(
    stage: Stage, outcome: Outcome, number: int, report: Callable[[Cell, int, str], None]
) -> None:
    cell = outcome.cell
    started = time.monotonic()
    for side in cell.sides if number % 2 == 0 else cell.sides[::-1]:
        if side not in outcome.reasons:
            report(cell, number, side)
            _run_side(stage, outcome, side)
            time.sleep(_PAUSE_SECONDS)
    outcome.round_seconds = time.monotonic() - started


def _run_side(stage: Stage, outcome: Outcome, side: str) -> None:
    cell = outcome.cell
    try:
        if cell.needs:
            served = stage.node(side, cell.settings.get(side, {})).served()
            missing = [key.name for key in cell.needs if key.value not in served]
            if missing:
                outcome.reasons[side] = f"{side} does not serve {', '.join(missing)}"
                return
        outcome.runs.setdefault(side, []).append(LOADS[cell.run](stage, cell, side))
    except _FAILURES as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        outcome.reasons[side] = lines[-1][:200]
