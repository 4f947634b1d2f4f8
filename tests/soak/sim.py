"""Whole nodes with clients and faults on virtual time: `python -m tests.soak.sim --seconds N`.

Seeds begin with the date, so that every run explores new ones. A failure names the command that
runs it again; `--shrink` with that command looks for a smaller story.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime

from tests.simulation.world.__main__ import soak


def first_seed(now: datetime) -> int:
    """Rises with time, by more than a run can use up."""
    return int(now.timestamp()) * 100


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.sim", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    options = parser.parse_args(arguments)
    first = first_seed(datetime.now(UTC))
    return soak(first, count=None, seconds=options.seconds, jobs=os.cpu_count() or 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
