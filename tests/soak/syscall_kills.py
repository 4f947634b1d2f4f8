"""A node killed at every system call that changes files, each in a run of its own.

`python -m tests.soak.syscall_kills --seconds N` goes through the calls of every kind, by every
means that the machine has, in an order drawn from a seed, until all were reached or time is over.
`--all` takes the time that it takes; `--point KIND NUMBER MEANS` runs one again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random, SystemRandom

from tests.process.syscall_kills import HOOK_KINDS, STRACE_KINDS, KillPoint, has_strace, run

MEANS = {"strace": False, "hook": True}


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
        found += [KillPoint(kind, number, is_hook) for number in range(1, total + 1)]
    return found


def try_point(point: KillPoint) -> bool:
    try:
        was_killed, _ = run_point(point)
    except BaseException:
        means = "hook" if point.is_hook else "strace"
        again = f"--point {point.kind!r} {point.number} {means}"
        print(f"failed: python -m tests.soak.syscall_kills --seconds 1 {again}", flush=True)
        raise
    return was_killed


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.syscall_kills", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**31))
    parser.add_argument("--point", nargs=3, metavar=("KIND", "NUMBER", "MEANS"))
    options = parser.parse_args(arguments)
    if options.point:
        kind, number, means = options.point
        print("killed" if try_point(KillPoint(kind, int(number), MEANS[means])) else "not reached")
        return 0
    deadline = time.monotonic() + options.seconds
    points = all_points()
    Random(options.seed).shuffle(points)
    done = killed = 0
    for point in points:
        killed += try_point(point)
        done += 1
        if done % 20 == 0:
            print(f"{done} of {len(points)} calls, {killed} kills", flush=True)
        if time.monotonic() > deadline and not options.all:
            break
    print(f"seed {options.seed}: {done} of {len(points)} calls, {killed} kills")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
