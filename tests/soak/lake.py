"""Tables with new seeds for a while: `python -m tests.soak.lake --seconds N`.

What is done with each seed, in this order; `--only` names some of it:

| part | what |
|---|---|
| rounds | committers are killed again and again |
| works | merges, compactions, expiries and the like are killed, each some times |
| history | random upserts, deletes by strangers, compactions, manifests; beside a model |
| engines | the same with other engines, which change and read the table: `--engines` |
| faults | every step of every work dies and fails, once for all seeds: about 20 minutes |

Engines are spark (4.1, with the Iceberg runtime), sail and chdb; those that are named are installed
in environments of their own at first. `faults` is left out unless it is named.

A failure names its seed; `--seed` runs that one again.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path
from random import Random, SystemRandom

from kaa.testing import Broker
from tests.spark.lake import kills
from tests.spark.lake.fault_stories import WORKS, Bases, Story
from tests.spark.lake.faults import faulty, small_folders
from tests.spark.lake.strangers import Engines, History, engines
from tests.spark.lake.test_upserts import run_history

KILLS_PER_SEED = 10
KILLS_PER_WORK = 2
STEPS_PER_SEED = 60
STRANGE_STEPS_PER_SEED = 40
PARTS = ("rounds", "works", "history", "engines")
FAULTS = "faults"
ENGINES = ("spark", "sail", "chdb")


def kill_works(broker: Broker, seed: int) -> str:
    """Each work in processes of its own, killed at some time."""
    chance, killed = Random(seed), 0
    with small_folders(), tempfile.TemporaryDirectory(prefix="kaa-works-") as folder:
        bases = Bases(broker, Path(folder))
        for layout, work in WORKS:
            story, before = Story(bases, layout, work), killed
            for number in range(KILLS_PER_WORK):
                try:
                    killed += story.kill(chance)
                except BaseException as error:
                    error.add_note(f"{layout}, {work}, kill {number}")
                    raise
            print(f"  {layout}, {work}: {killed - before} kills", flush=True)
    return f"{killed} kills of {len(WORKS)} works"


def all_faults(broker: Broker) -> str:
    """Every step of every work, with every fault that makes a difference."""
    count = 0
    with faulty() as steps, tempfile.TemporaryDirectory(prefix="kaa-faults-") as folder:
        bases = Bases(broker, Path(folder))
        for layout, work in WORKS:
            story = Story(bases, layout, work, steps)
            for point in story.points:
                story.run(steps, point)
            print(f"  {layout}, {work}: {len(story.points)} faults", flush=True)
            count += len(story.points)
    return f"{count} faults"


def run_seed(
    broker: Broker, place: Path, others: Engines, seed: int, parts: list[str]
) -> list[str]:
    """What was done with one seed."""
    layout, done = ("iceberg", "parquet")[seed % 2], []
    with tempfile.TemporaryDirectory(prefix="kaa-lake-") as folder:
        if "rounds" in parts:
            kills.run(broker, Path(folder), layout, seed, KILLS_PER_SEED)
            done.append(f"{KILLS_PER_SEED} kills of rounds")
        if "works" in parts:
            done.append(kill_works(broker, seed))
        if "history" in parts:
            run_history(broker, Path(folder) / "upserts", seed, STEPS_PER_SEED)
            done.append(f"{STEPS_PER_SEED} steps of a history")
    if "engines" in parts:
        history = History(broker, place, others, seed)
        history.run(STRANGE_STEPS_PER_SEED)
        done.append(str(history.counts))
    return [layout, *done]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.lake", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**31))
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between")
    parser.add_argument("--engines", default="spark", help="some of spark,sail,chdb")
    options = parser.parse_args(arguments)
    parts, names = options.only.split(","), options.engines.split(",")
    for given, known in ((parts, (*PARTS, FAULTS)), (names, ENGINES)):
        if strange := set(given) - set(known):
            parser.error(f"{', '.join(sorted(strange))}: there are {', '.join(known)}")
    deadline = time.monotonic() + options.seconds
    with (
        Broker() as broker,
        tempfile.TemporaryDirectory(prefix="kaa-strangers-") as place,
        engines(Path(place), names if "engines" in parts else []) as others,
    ):
        if FAULTS in parts:
            print(all_faults(broker), flush=True)
        for seed in itertools.count(options.seed):
            try:
                done = run_seed(broker, Path(place), others, seed, parts)
            except BaseException:
                again = f"--seed {seed} --only {options.only} --engines {options.engines}"
                print(f"failed: python -m tests.soak.lake --seconds 1 {again}", flush=True)
                raise
            print(f"seed {seed}: {', '.join(done)}", flush=True)
            if time.monotonic() > deadline or parts == [FAULTS]:
                break
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
