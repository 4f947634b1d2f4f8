"""A node killed at every call that changes files while its logs move: `scripts/soak move_kills`.

Logs of every kind (trimmed, compacted, short-lived) are moved to another directory at once, while
records come. The calls between the request and the end of the last move are counted; then the story
is told once for each, with a kill there. Ends when all were reached or time is over; `--all`
takes the time that it takes. A point that fails is named with the command that tries it again, and
the others go on.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from random import Random, SystemRandom
from typing import Final, NamedTuple

from tests.process.syscall_kills import HOOK_KINDS, KillPoint, MoveStory, run

POINTS_PER_LINE: Final = 20


class Outcome(NamedTuple):
    """How the story of one point ended."""

    point: KillPoint
    was_killed: bool = False
    # What went wrong, if anything did.
    trouble: str = ""


def run_point(point: KillPoint) -> tuple[bool, int]:
    with tempfile.TemporaryDirectory(prefix="kaa-move-kills-") as folder:
        return run(Path(folder, "node"), point, MoveStory, Path(folder, "armed"))


def count_calls(kind: str) -> list[KillPoint]:
    _, total = run_point(KillPoint(kind, 0, is_hook=True))
    print(f"{kind}: {total} calls", flush=True)
    return [KillPoint(kind, number, is_hook=True) for number in range(1, total + 1)]


def attempt(point: KillPoint, deadline: float) -> Outcome | None:
    """None if time is over."""
    if time.monotonic() > deadline:
        return None
    try:
        was_killed, _ = run_point(point)
    except Exception:  # noqa: BLE001  Whatever it is, it is printed and the next one has its turn.
        return Outcome(point, trouble=traceback.format_exc())
    return Outcome(point, was_killed)


def run_points(points: list[KillPoint], jobs: int, deadline: float) -> list[Outcome]:
    """Says now and then how far it has come."""
    began = time.monotonic()
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(jobs) as pool:
        attempts = [pool.submit(attempt, point, deadline) for point in points]
        for ended in as_completed(attempts):
            outcome = ended.result()
            if outcome is None:
                continue
            outcomes.append(outcome)
            if outcome.trouble:
                again = f"--point {outcome.point.kind!r} {outcome.point.number}"
                print(f"failed: scripts/soak move_kills {again}\n{outcome.trouble}", flush=True)
            if len(outcomes) % POINTS_PER_LINE == 0:
                seconds = time.monotonic() - began
                print(f"{len(outcomes)} of {len(points)} after {seconds:.0f} s", flush=True)
    return outcomes


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.move_kills", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**31))
    parser.add_argument("--point", nargs=2, metavar=("KIND", "NUMBER"))
    options = parser.parse_args(arguments)
    if options.point:
        was_killed, _ = run_point(KillPoint(options.point[0], int(options.point[1]), is_hook=True))
        print("killed" if was_killed else "not reached")
        return 0
    deadline = float("inf") if options.all else time.monotonic() + options.seconds
    points = [point for kind in HOOK_KINDS for point in count_calls(kind)]
    Random(options.seed).shuffle(points)
    outcomes = run_points(points, options.jobs, deadline)
    killed = sum(outcome.was_killed for outcome in outcomes)
    failed = sum(bool(outcome.trouble) for outcome in outcomes)
    # No two runs make quite the same calls.
    print(
        f"seed {options.seed}: {len(outcomes)} of {len(points)} calls, {killed} kills, "
        f"{len(outcomes) - killed - failed} came too late, {failed} failed",
        flush=True,
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
