"""Planted faults, hunted with new seeds: `python -m tests.soak.mutants --seconds N`.

Seeds begin with the date, so that the hunt is another one every day. A mutant that survives is a
hole in what the simulation can see; `python -m tests.simulation.mutants --write` renews the table.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime

from tests.simulation.mutants.__main__ import main as hunt
from tests.soak.sim import first_seed

SEEDS_EACH = 20


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.mutants", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    seconds = parser.parse_args(arguments).seconds
    first = first_seed(datetime.now(UTC))
    return hunt([f"--first={first}", f"--seeds={SEEDS_EACH}", f"--seconds={seconds}"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
