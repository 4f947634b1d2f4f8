"""Stories of replicas that move between directories, on virtual time, for as long as asked.

`python -m tests.soak.moves --seconds N` tells one seed after the other from `--first` on. A seed
that fails is named, with the last lines of its story, and the others go on.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from random import SystemRandom

from tests.simulation.moves.stories import quiet, tell


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.moves", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--first", type=int, default=SystemRandom().randrange(2**31))
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + options.seconds
    seed, failed = options.first, 0
    with quiet():
        while time.monotonic() < deadline:
            try:
                tell(seed)
            except Exception:  # noqa: BLE001  Whatever it is, it is shown and the next one comes.
                failed += 1
                print(f"failed: python -m tests.soak.moves --seconds 1 --first {seed}")
                traceback.print_exc()
            seed += 1
    print(f"{seed - options.first} stories from {options.first} on, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
