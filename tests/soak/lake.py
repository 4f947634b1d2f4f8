"""Tables with new seeds for a while: `python -m tests.soak.lake --seconds N`.

Committers are killed again and again; and random histories of upserts, deletes by strangers,
compactions and manifests are compared with a model, read by us and by pyiceberg.

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

from kaa.testing import Broker
from tests.spark.lake import kills
from tests.spark.lake.test_upserts import run_history

KILLS_PER_SEED = 10
STEPS_PER_SEED = 60


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.lake", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**31))
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + options.seconds
    with Broker() as broker:
        for seed in itertools.count(options.seed):
            layout = ("iceberg", "parquet")[seed % 2]
            try:
                with tempfile.TemporaryDirectory(prefix="kaa-lake-") as folder:
                    kills.run(broker, Path(folder), layout, seed, KILLS_PER_SEED)
                    run_history(broker, Path(folder) / "upserts", seed, STEPS_PER_SEED)
            except BaseException:
                print(f"failed: python -m tests.soak.lake --seconds 1 --seed {seed}", flush=True)
                raise
            done = f"{KILLS_PER_SEED} kills, {STEPS_PER_SEED} steps of a history"
            print(f"seed {seed}, {layout}: {done}", flush=True)
            if time.monotonic() > deadline:
                break
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
