"""Nodes killed under load with new seeds for a while: `python -m tests.soak.kills --seconds N`.

A failure names its seed; `--seed` runs that one again.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path
from random import SystemRandom

from tests.process import kills
from tests.support.broker_process import BrokerProcess

KILLS_PER_SEED = 12


def run_seed(seed: int) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="kaa-kills-") as folder,
        BrokerProcess(Path(folder, "node")) as broker,
    ):
        is_idempotent = seed % 3 != 0
        load = kills.run(broker, seed, KILLS_PER_SEED, enable_idempotence=is_idempotent)
        kills.check_nothing_lost(broker, load)
        if is_idempotent:
            kills.check_nothing_twice(broker, load)
        broker.stop()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.kills", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**31))
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + options.seconds
    for seed in itertools.count(options.seed):
        try:
            run_seed(seed)
        except BaseException:
            print(f"failed: python -m tests.soak.kills --seconds 1 --seed {seed}", flush=True)
            raise
        print(f"seed {seed}: {KILLS_PER_SEED} kills", flush=True)
        if time.monotonic() > deadline:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
