"""Runs seeds of the simulated quorum: `python -m tests.simulation.quorum --seeds 1000`.

A seed that fails is printed with the one command that runs it again, step by step; the exit code is
1 then.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from multiprocessing import Pool

from kaa.quorum.transitions import LEGAL_TRANSITIONS
from tests.simulation.quorum.scenario import Result, Scenario

PROGRESS_SEEDS = 100


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def replay_command(seed: int) -> str:
    return f"python -m tests.simulation.quorum --seed {seed} --trace"


def run(seed: int) -> tuple[int, Result | None, str]:
    """One seed in a worker process: its result, or what went wrong."""
    try:
        return seed, Scenario(seed).run(), ""
    except Exception as failure:  # noqa: BLE001 - whatever it is, the seed is what matters
        return seed, None, f"{type(failure).__name__}: {failure}"


def replay(seed: int, traced: bool) -> int:
    """One seed here, with its last steps if it fails."""
    scenario = Scenario(seed)
    scenario.cluster.is_traced = traced
    try:
        result = scenario.run()
    except Exception:
        say("\n".join(scenario.cluster.lines))
        say(f"seed {seed} failed at {scenario.cluster.now_ms} ms\nreplay: {replay_command(seed)}")
        raise
    say(
        f"seed {seed} passed: {result.events} events, {result.faults} faults,"
        f" {result.epochs} epochs, {result.committed} offsets committed"
    )
    return 0


def soak(first: int, count: int, jobs: int) -> int:
    """Many seeds; the number that failed decides the exit code."""
    started = time.monotonic()
    failed: list[int] = []
    totals: Counter[str] = Counter()
    effects: Counter[str] = Counter()
    transitions: set[tuple[str, str]] = set()
    with Pool(jobs) as pool:
        seeds = range(first, first + count)
        for done, (seed, result, failure) in enumerate(pool.imap_unordered(run, seeds), 1):
            if result is None:
                failed.append(seed)
                say(f"seed {seed} failed: {failure}\nreplay: {replay_command(seed)}")
            else:
                for name in ("events", "faults", "epochs", "committed", "acknowledged"):
                    totals[name] += getattr(result, name)
                effects += result.effects
                transitions |= result.transitions
            if done % PROGRESS_SEEDS == 0:
                say(f"{done} seeds, {len(failed)} failed, {time.monotonic() - started:.0f} s")
    say(", ".join(f"{value} {name}" for name, value in totals.items()))
    say("effects: " + ", ".join(f"{name} {value}" for name, value in sorted(effects.items())))
    legal = {(old.__name__, new.__name__) for old, new in LEGAL_TRANSITIONS}
    say(f"transitions: {len(transitions & legal)} of {len(legal)}; never: {legal - transitions}")
    say(f"{count} seeds, {len(failed)} failed, {time.monotonic() - started:.0f} s")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.quorum")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, help="run this one alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: print the last steps")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return replay(arguments.seed, arguments.trace)
    return soak(arguments.first, arguments.seeds, arguments.jobs)


if __name__ == "__main__":
    sys.exit(main())
