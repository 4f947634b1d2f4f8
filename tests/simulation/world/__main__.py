"""Runs stories of the world: `python -m tests.simulation.world --seeds 100`.

A seed that fails is printed with the one command that runs it again; `--trace FILE` writes who sent
what to whom, which faults there were and what nodes reported; `--shrink` looks for a smaller story
that fails as well, with fewer faults, fewer clients and less time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from dataclasses import replace
from multiprocessing import Pool
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.simulation.world.scenario import (
    COVERED,
    Plan,
    Result,
    Scenario,
    queue_plan,
    tier_plan,
    voter_plan,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.pool import AsyncResult

_HASH_SEED = "0"
LAST_LINES = 60
# A set of so many stories has to cover everything, be it so that all of them passed.
COVERING_STORIES = 40
# Every so many-th story has one node, whose promises differ from those of three.
SINGLE_EVERY = 5
# Every so many-th is about a queue, and of others one is about voters, one about the tier.
QUEUE_EVERY = 4
RARE_EVERY = 8
# What a plan says in numbers, and a command with options.
NUMBERS = (
    "budget",
    "transactors",
    "senders",
    "members",
    "operators",
    "nodes",
    "workers",
    "visitors",
    "controllers",
    "archivists",
)


def story(seed: int) -> Plan:
    """The story that a set has for a seed."""
    if seed % QUEUE_EVERY == 1:
        return queue_plan(seed, 25.0, visitors=seed // QUEUE_EVERY % 2)
    if seed % RARE_EVERY == 2:
        return voter_plan(seed, 25.0)
    if seed % RARE_EVERY == 4:
        return tier_plan(seed, 25.0)
    return Plan(seed, seconds=25.0, nodes=1 if seed % SINGLE_EVERY == 0 else 3)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def fix_hashes() -> None:
    """Begins again with the order of hashes that every replay has."""
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:
        environment = {**os.environ, "PYTHONHASHSEED": _HASH_SEED}
        arguments = [sys.executable, "-m", "tests.simulation.world", *sys.argv[1:]]
        os.execve(sys.executable, arguments, environment)


def replay_command(plan: Plan) -> str:
    default = Plan(plan.seed)
    parts = [f"python -m tests.simulation.world --seed {plan.seed}"]
    for name in ("seconds", *NUMBERS):
        value = getattr(plan, name)
        if value != getattr(default, name):
            parts.append(f"--{name} {value:g}")
    if plan.kinds != default.kinds:
        parts.append("--kinds " + ",".join(kind.replace(" ", "_") for kind in plan.kinds))
    return " ".join(parts)


def run(plan: Plan) -> tuple[Plan, Result | None, str, float]:
    """One story: its result, or what went wrong, and how long the processor took."""
    began = time.process_time()
    try:
        result = Scenario(plan).run()
    except BaseException as failure:
        if isinstance(failure, KeyboardInterrupt):
            raise
        text = f"{type(failure).__name__}: {failure}"
        return plan, None, text, time.process_time() - began
    return plan, result, "", time.process_time() - began


def replay(plan: Plan, trace: str | None) -> int:
    scenario = Scenario(plan, is_traced=trace is not None)
    try:
        result = scenario.run()
    except Exception:  # noqa: BLE001  It is reported below.
        say("\n".join(list(scenario.kernel.lines)[-LAST_LINES:]))
        say(traceback.format_exc())
        say(f"faults: {dict(scenario.faults.counts)}")
        say(f"seed {plan.seed} failed at {scenario.kernel.now:.3f} s")
        say(f"replay: {replay_command(plan)}")
        return 1
    finally:
        if trace is not None:
            Path(trace).write_text("\n".join(scenario.kernel.lines) + "\n")
    say(f"seed {plan.seed} passed, digest {result.digest}")
    say(told(result.faults) + "\n" + told(result.counts))
    return 0


def told(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def smaller(plan: Plan) -> Iterator[Plan]:
    """Stories with less in them, the boldest first."""
    middle = len(plan.kinds) // 2
    if middle > 1:
        yield replace(plan, kinds=plan.kinds[:middle])
        yield replace(plan, kinds=plan.kinds[middle:])
    for kind in plan.kinds:
        if len(plan.kinds) > 1:
            yield replace(plan, kinds=tuple(other for other in plan.kinds if other != kind))
    for name in ("members", "operators", "senders", "transactors", "workers", "archivists"):
        if getattr(plan, name) > 0:
            yield replace(plan, **{name: getattr(plan, name) - 1})
    if plan.budget > 1:
        yield replace(plan, budget=plan.budget // 2)
        yield replace(plan, budget=plan.budget - 1)
    if plan.seconds > 5:
        yield replace(plan, seconds=plan.seconds / 2)


def shrink(plan: Plan) -> Plan:
    """The smallest story found that fails; how it fails may differ."""
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in smaller(plan):
            _, result, failure, _ = run(candidate)
            if result is None and "too little" not in failure:
                say(f"smaller: {replay_command(candidate)}\n  {failure[:200]}")
                plan, is_smaller = candidate, True
                break
    return plan


class Totals:
    """Sums over many stories."""

    def __init__(self) -> None:
        self.failed: list[Plan] = []
        self.counts: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.virtual_seconds = 0.0
        self.processor_seconds = 0.0
        self.stories = 0

    def add(self, plan: Plan, result: Result | None, failure: str, seconds: float) -> None:
        self.stories += 1
        self.processor_seconds += seconds
        if result is None:
            self.failed.append(plan)
            say(f"seed {plan.seed} failed: {failure[:500]}\n  replay: {replay_command(plan)}")
            return
        self.virtual_seconds += result.virtual_seconds
        self.counts += result.counts
        self.faults += result.faults

    def missing(self) -> list[str]:
        """What happened in none of many stories."""
        if self.stories < COVERING_STORIES:
            return []
        return [name for name in COVERED if not self.counts[name]]

    def tell(self) -> None:
        say(f"faults: {told(self.faults)}")
        say(f"done: {told(self.counts)}")
        speed = self.virtual_seconds / max(self.processor_seconds, 0.001)
        say(
            f"{self.stories} stories, {len(self.failed)} failed; "
            f"{self.virtual_seconds / 3600:.2f} simulated hours in "
            f"{self.processor_seconds / 3600:.2f} processor hours ({speed:.1f} to 1)"
        )
        if missing := self.missing():
            say(f"too little: there was nothing of {', '.join(missing)}")


def soak(first: int, *, count: int | None, seconds: float | None, jobs: int) -> int:
    """Stories of new seeds, so many or for so long; the exit code says whether all passed."""
    totals = Totals()
    ends = None if seconds is None else time.monotonic() + seconds
    limit = count if count is not None else 10**9
    with Pool(jobs, maxtasksperchild=20) as pool:
        plans = (story(seed) for seed in range(first, first + limit))
        waiting: dict[int, AsyncResult[Any]] = {}
        for plan in plans:
            waiting[plan.seed] = pool.apply_async(run, (plan,))
            while len(waiting) >= 2 * jobs:
                _collect(waiting, totals)
            if ends is not None and time.monotonic() > ends:
                break
        while waiting:
            _collect(waiting, totals)
    totals.tell()
    return 1 if totals.failed or totals.missing() else 0


def quiet(seconds: float) -> None:
    """How fast time goes for three nodes that nobody talks to."""
    scenario = Scenario(Plan(1, nodes=3))
    for node in scenario.nodes:
        node.boot()
    scenario.kernel.run_for(20)
    began = time.process_time()
    scenario.kernel.run_for(seconds)
    spent = time.process_time() - began
    for node in scenario.nodes:
        node.crash("kill")
    say(
        f"three quiet nodes: {seconds / spent:.0f} times as fast as real time, "
        f"{3 * seconds / spent / 60:.1f} broker-hours per minute of a core"
    )


def _collect(waiting: dict[int, AsyncResult[Any]], totals: Totals) -> None:
    seed = next(iter(waiting))
    totals.add(*waiting.pop(seed).get())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.world", description=__doc__)
    parser.add_argument("--seeds", type=int, help="how many stories")
    parser.add_argument("--quiet", type=float, help="measure the speed over so many seconds")
    parser.add_argument("--for-seconds", type=float, help="or for how long")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, help="this story alone")
    parser.add_argument("--trace", help="with --seed: the file that gets the trace")
    parser.add_argument("--shrink", action="store_true", help="with --seed: find a smaller story")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--kinds", help="faults, with commas between them")
    for name in NUMBERS:
        parser.add_argument(f"--{name}", type=int)
    options = parser.parse_args()
    fix_hashes()
    if options.quiet:
        quiet(options.quiet)
        return 0
    if options.seed is None:
        count = options.seeds or (None if options.for_seconds else 100)
        return soak(options.first, count=count, seconds=options.for_seconds, jobs=options.jobs)
    plan = Plan(options.seed)
    for name in ("seconds", *NUMBERS):
        if (value := getattr(options, name)) is not None:
            plan = replace(plan, **{name: value})
    if options.kinds:
        kinds = tuple(kind.replace("_", " ") for kind in options.kinds.split(","))
        plan = replace(plan, kinds=kinds)
    if options.shrink:
        plan = shrink(plan)
    return replay(plan, options.trace)


if __name__ == "__main__":
    sys.exit(main())
