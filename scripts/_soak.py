"""Runs what needs time rather than thought: fuzz targets and long tests, each for a while.

A fuzz target is a program `tests/fuzz/fuzz_NAME.py` that takes libFuzzer's arguments; a long test
is a program `tests/soak/NAME.py` that takes `--seconds`. Both end by themselves when their time
is over, and fail by their exit code. What fuzzing finds is kept where the target says.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from scripts._environment import SetupError, ensure

ROOT = Path(__file__).resolve().parent.parent
SECONDS_EACH = 60
# Programs that look for drift or go through many points need more than the others.
SECONDS_BY_NAME = {
    "chaos": 300,
    "migration": 300,
    "mixed": 600,
    "mixed_cluster": 60,
    "mixed_queues": 60,
    "spark": 1200,
    "streams": 600,
}
# What programs need beside the tools of developers.
EXTRAS_BY_NAME = {"lake": ["lake", "spark"], "spark": ["spark"]}
GRACE_SECONDS = 120
# A program that goes through points, or a number of seeds, takes the time that all of them take.
_UNTIMED = {"--all", "--seeds"}
# How long it may take to start, heal and read everything, where that is not all of the work.
GRACE_SECONDS_BY_NAME = {
    "chaos": 1200,
    # One seed is gone through to its end; `--only faults` takes all steps of all works.
    "lake": 3600,
    "mixed_cluster": 3600,
    "mixed_queues": 1800,
    "streams": 900,
}


def programs() -> dict[str, list[str]]:
    """Finds the programs: name -> module and the argument that gives it its time."""
    fuzz = sorted((ROOT / "tests" / "fuzz").glob("fuzz_*.py"))
    soak = sorted((ROOT / "tests" / "soak").glob("[!_]*.py"))
    return {
        **{path.stem: [f"tests.fuzz.{path.stem}", "-max_total_time={}"] for path in fuzz},
        **{path.stem: [f"tests.soak.{path.stem}", "--seconds={}"] for path in soak},
    }


def run(name: str, command: list[str], seconds: int, more: list[str]) -> bool:
    """Runs one program; tells whether it went well."""
    print(f"--- {name}", flush=True)
    started = time.monotonic()
    module, time_argument = command
    is_timed = _UNTIMED.isdisjoint(word.partition("=")[0] for word in more)
    grace_seconds = GRACE_SECONDS_BY_NAME.get(name, GRACE_SECONDS)
    try:
        code: int | str = subprocess.run(
            [sys.executable, "-m", module, time_argument.format(seconds), *more],
            check=False,
            cwd=ROOT,
            timeout=seconds + grace_seconds if is_timed else None,
        ).returncode
    except subprocess.TimeoutExpired:
        code = "did not end"
    state = "ok" if code == 0 else f"FAILED ({code})"
    print(f"{name:<30} {time.monotonic() - started:6.0f} s  {state}", flush=True)
    return code == 0


def main(arguments: list[str]) -> int:
    """Runs the named programs, or all, one after the other."""
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    longer = ", ".join(f"{seconds} for {name}" for name, seconds in SECONDS_BY_NAME.items())
    parser.add_argument(
        "--seconds",
        type=int,
        help=f"time of each program; {SECONDS_EACH} unless told, {longer}",
    )
    parser.add_argument("--hours", type=float, help="the same in hours")
    parser.add_argument("name", nargs="*", help="what to run; all if nothing is named")
    parser.add_argument("--minutes", type=float, help="the same in minutes")
    # What only a program knows is for it, such as the system of `chaos`.
    options, more = parser.parse_known_args(arguments)
    if options.hours is not None:
        options.seconds = int(options.hours * 3600)
    elif options.minutes is not None:
        options.seconds = int(options.minutes * 60)
    found = programs()
    unknown = set(options.name) - set(found)
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}; there are {', '.join(found)}")
    names = options.name or list(found)
    if more and len(names) != 1:
        parser.error(f"name the one program that takes {' '.join(more)}")
    if extras := {extra for name in names for extra in EXTRAS_BY_NAME.get(name, ())}:
        try:
            ensure(extras)
        except SetupError as error:
            print(error)
            return 1
    results = [
        run(name, found[name], options.seconds or SECONDS_BY_NAME.get(name, SECONDS_EACH), more)
        for name in names
    ]
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
