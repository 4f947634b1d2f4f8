"""Hunts mutants: `python -m tests.simulation.mutants --seeds 20 --write`.

Each one gets a process of its own. `--write` puts the results into `table.md`; a mutant that
survives all its seeds makes the run fail.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.simulation.mutants.planted import MUTANTS, by_name
from tests.simulation.mutants.runner import Verdict, hunt

TABLE = Path(__file__).with_name("table.md")
ROOT = Path(__file__).resolve().parents[3]
_HEAD = """# Planted faults, and how many stories find them

Written by `python -m tests.simulation.mutants --write`: stories of three nodes, with seeds from
{first} on, until one fails.

| Mutant | Stories needed | Seed | Found by |
|---|---|---|---|
"""


def verdict_of(name: str, first: int, seeds: int) -> Verdict:
    """The verdict on a mutant, from a process of its own."""
    command = [sys.executable, "-m", "tests.simulation.mutants", "--mutant", name]
    done = subprocess.run(
        [*command, "--first", str(first), "--seeds", str(seeds)],
        check=False,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        text=True,
    )
    if done.returncode:
        return Verdict(name, first, 1, f"the process ended: {done.stderr.strip()[-90:]}")
    return Verdict(*json.loads(done.stdout.splitlines()[-1]))


def row(verdict: Verdict) -> str:
    found = "none" if verdict.seed is None else str(verdict.seed)
    needed = f"more than {verdict.stories}" if verdict.seed is None else str(verdict.stories)
    failure = verdict.failure.replace("|", "/")
    return f"| {verdict.mutant} | {needed} | {found} | {failure} |"


def hunt_all(first: int, seeds: int, jobs: int, *, seconds: float | None) -> list[Verdict]:
    """All mutants, or as many as are begun within the time."""
    ends = None if seconds is None else time.monotonic() + seconds

    def one(name: str) -> Verdict | None:
        if ends is not None and time.monotonic() > ends:
            return None
        verdict = verdict_of(name, first, seeds)
        sys.stdout.write(row(verdict) + "\n")
        sys.stdout.flush()
        return verdict

    with ThreadPoolExecutor(jobs) as pool:
        verdicts = list(pool.map(one, [mutant.name for mutant in MUTANTS]))
    return [verdict for verdict in verdicts if verdict is not None]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("--mutant", help="this one, in this process")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=20, help="stories for each at most")
    parser.add_argument("--seconds", type=float, help="begin with no mutant after so long")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--write", action="store_true", help="write the table")
    options = parser.parse_args(arguments)
    seeds = range(options.first, options.first + options.seeds)
    if options.mutant:
        sys.stdout.write(json.dumps(hunt(by_name(options.mutant), seeds)) + "\n")
        return 0
    verdicts = hunt_all(options.first, options.seeds, options.jobs, seconds=options.seconds)
    if options.write:
        rows = "\n".join(map(row, verdicts))
        TABLE.write_text(_HEAD.format(first=options.first) + rows + "\n", encoding="utf-8")
    survivors = [verdict.mutant for verdict in verdicts if verdict.seed is None]
    sys.stdout.write(f"{len(verdicts)} mutants, {len(survivors)} survived: {survivors}\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
