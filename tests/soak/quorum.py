"""Simulated quorums with new seeds for a while: `python -m tests.soak.quorum --seconds N`.

A failure names its seed and the command that runs it again. For a number of seeds instead of time:
`python -m tests.simulation.quorum --seeds 1000`.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import SystemRandom

from tests.simulation.quorum.__main__ import replay_command, run


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.quorum", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    deadline = time.monotonic() + parser.parse_args(arguments).seconds
    first = SystemRandom().randrange(2**31)
    seed = first
    while time.monotonic() < deadline:
        _, result, failure = run(seed)
        if result is None:
            print(f"seed {seed} failed: {failure}\nreplay: {replay_command(seed)}", flush=True)
            return 1
        seed += 1
    print(f"{seed - first} seeds passed, from {first} on", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
