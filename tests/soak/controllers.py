"""Controllers whose voters change, with faults, on virtual time: `scripts/soak controllers`.

A failure names its seed and the command that runs it again. For a number of seeds instead of time:
`python -m tests.simulation.controllers --seeds 1000`.
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
    seconds = parser.parse_args(arguments).seconds
    # Rises with time, by more than a run can use up, so that every run has new seeds.
    return soak(int(time.time()) * 100, SEEDS_MAX, seconds, os.cpu_count() or 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
