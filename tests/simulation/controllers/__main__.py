"""Runs stories of controllers: `python -m tests.simulation.controllers --seeds 1000`.

A seed that fails is printed with the one command that runs it again; with `--trace` that prints the
last steps.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from multiprocessing import Pool

from tests.simulation.controllers.scenario import Plan, Result, Scenario

_HASH_SEED = "0"
LAST_LINES = 60
PROGRESS_SEEDS = 50
STORIES_PER_PROCESS = 20


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def fix_hashes() -> None:
    """Begins again with the order of hashes that every replay has."""
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:
        environment = {**os.environ, "PYTHONHASHSEED": _HASH_SEED}
        arguments = [sys.executable, "-m", "tests.simulation.controllers", *sys.argv[1:]]
        os.execve(sys.executable, arguments, environment)


def replay_command(seed: int) -> str:
    return f"python -m tests.simulation.controllers --seed {seed} --trace"


def run(seed: int) -> tuple[int, Result | None, str]:
    try:
        return seed, Scenario(Plan(seed)).run(), ""
    except Exception as failure:  # noqa: BLE001 - whatever it is, the seed is what matters
        return seed, None, f"{type(failure).__name__}: {failure}"


def replay(seed: int, *, is_traced: bool) -> int:
    scenario = Scenario(Plan(seed), is_traced=is_traced)
    try:
        result = scenario.run()
    except Exception:
        say("\n".join(list(scenario.kernel.lines)[-LAST_LINES:]))
        say(f"seed {seed} failed at {scenario.kernel.now:.3f} s\nreplay: {replay_command(seed)}")
        raise
    say(f"seed {seed} passed: {result.changes} sets of voters, {result.epochs} leaders")
    say(", ".join(f"{name} {count}" for name, count in sorted(result.counts.items())))
    return 0


def soak(first: int, count: int, seconds: float, jobs: int) -> int:
    """Seeds until there are enough or time is up; the number that failed decides the code."""
    started = time.monotonic()
    failed, done = 0, 0
    totals: Counter[str] = Counter()
    # A story freezes what is there, that of the ones before included.
    with Pool(jobs, maxtasksperchild=STORIES_PER_PROCESS) as pool:
        for seed, result, failure in pool.imap_unordered(run, range(first, first + count)):
            done += 1
            if result is None:
                failed += 1
                say(f"seed {seed} failed: {failure}\nreplay: {replay_command(seed)}")
            else:
                totals += result.counts
                totals["sets of voters"] += result.changes
            taken = time.monotonic() - started
            if done % PROGRESS_SEEDS == 0:
                say(f"{done} seeds, {failed} failed, {taken:.0f} s")
            if taken > seconds:
                pool.terminate()
                break
    say(", ".join(f"{name} {count}" for name, count in sorted(totals.items())))
    say(f"{done} seeds from {first} on, {failed} failed")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.controllers")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no more after this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, help="run this one alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: print the last steps")
    options = parser.parse_args()
    fix_hashes()
    if options.seed is not None:
        return replay(options.seed, is_traced=options.trace)
    return soak(options.first, options.seeds, options.seconds, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
