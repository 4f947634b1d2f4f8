"""A node killed at every system call that changes files, each in a run of its own.

`python -m tests.soak.syscall_kills --seconds N` goes through the calls of every kind, by every
means that the machine has, in an order drawn from a seed, until all were reached or time is over.
`--all` takes the time that it takes, `--jobs` runs several at once, and `--point KIND NUMBER MEANS`
runs one again. A point that fails is named, and the others go on.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random, SystemRandom
from typing import NamedTuple

from tests.process.syscall_kills import HOOK_KINDS, STRACE_KINDS, KillPoint, has_strace, run

MEANS = {"strace": False, "hook": True}


class Outcome(NamedTuple):
    """How a run ended."""

    point: KillPoint
    was_killed: bool
    # What went wrong, if anything did.
    trouble: str


def run_point(point: KillPoint) -> tuple[bool, int]:
    with tempfile.TemporaryDirectory(prefix="kaa-kills-") as folder:
        return run(Path(folder, "node"), point)


def all_points() -> list[KillPoint]:
    """Counts the calls of every kind."""
    kinds = [(kind, True) for kind in HOOK_KINDS]
    if has_strace():
        kinds += [(kind, False) for kind in STRACE_KINDS]
    else:
        print("strace is missing or may not trace here; calls are counted from within alone")
    found = []
    for kind, is_hook in kinds:
        _, total = run_point(KillPoint(kind, 0, is_hook))
        print(f"{kind} by {means_of(is_hook)}: {total} calls", flush=True)
        found += [KillPoint(kind, number, is_hook) for number in range(1, total + 1)]
    return found


def means_of(is_hook: bool) -> str:
    return "hook" if is_hook else "strace"


def try_point(point: KillPoint) -> Outcome:
    try:
        was_killed, _ = run_point(point)
    except Exception:  # noqa: BLE001  Whatever it is, it is printed and the next one has its turn.
        return Outcome(point, was_killed=True, trouble=traceback.format_exc())
    return Outcome(point, was_killed, "")


def tell(outcome: Outcome) -> None:
    point = outcome.point
    again = f"--point {point.kind!r} {point.number} {means_of(point.is_hook)}"
    print(f"failed: python -m tests.soak.syscall_kills --seconds 1 {again}\n{outcome.trouble}")


def run_points(points: list[KillPoint], jobs: int, deadline: float) -> tuple[int, int, int]:
    """Runs them until the deadline; how many were run, killed and failed."""
    done = killed = failed = 0
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for outcome in pool.imap_unordered(try_point, points):
            done += 1
            killed += outcome.was_killed
            if outcome.trouble:
                failed += 1
                tell(outcome)
            if done % 20 == 0:
                print(f"{done} of {len(points)}, {killed} kills, {failed} failed", flush=True)
            if time.monotonic() > deadline:
                break
    return done, killed, failed


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.syscall_kills", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**31))
    parser.add_argument("--first", type=int, default=0, help="leave out so many of the order")
    parser.add_argument("--point", nargs=3, metavar=("KIND", "NUMBER", "MEANS"))
    options = parser.parse_args(arguments)
    if options.point:
        kind, number, means = options.point
        outcome = try_point(KillPoint(kind, int(number), MEANS[means]))
        if outcome.trouble:
            tell(outcome)
            return 1
        print("killed" if outcome.was_killed else "not reached")
        return 0
    deadline = float("inf") if options.all else time.monotonic() + options.seconds
    points = all_points()
    Random(options.seed).shuffle(points)
    points = points[options.first :]
    done, killed, failed = run_points(points, options.jobs, deadline)
    print(
        f"seed {options.seed}: {done} of {len(points)} calls, {killed} kills, {failed} failed",
        flush=True,
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
