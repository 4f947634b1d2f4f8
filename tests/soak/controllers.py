"""Controllers whose voters change, with faults, on virtual time: `scripts/soak controllers`.

A failure names its seed and the command that runs it again. `scripts/soak controllers --seeds 1000`
runs a number of seeds, however long that takes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.simulation.controllers.__main__ import soak

SEEDS_MAX = 1_000_000


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.controllers", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--seeds", type=int, help="how many, instead of a time")
    options = parser.parse_args(arguments)
    # Rises with time, by more than a run can use up, so that every run has new seeds.
    first, jobs = int(time.time()) * 100, os.cpu_count() or 1
    if options.seeds is not None:
        return soak(first, options.seeds, float("inf"), jobs)
    return soak(first, SEEDS_MAX, options.seconds, jobs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
