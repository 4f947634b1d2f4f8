"""Voters killed at every system call of elections and of changes: `scripts/soak voter_kills`.

Goes through kinds of calls and numbers, each with another victim, until time is up; a kind ends
where a story has fewer calls. A failure names its point.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from tests.process.syscall_kills import HOOK_KINDS
from tests.process.voter_kills import COUNT, Point, told


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.voter_kills", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    deadline = time.monotonic() + parser.parse_args(arguments).seconds
    left, done = list(HOOK_KINDS), 0
    for number in count(1):
        for kind in tuple(left):
            if time.monotonic() > deadline:
                break
            point = Point(kind, number, number % COUNT + 1)
            with tempfile.TemporaryDirectory() as folder:
                try:
                    was_killed = told(Path(folder), point)
                except BaseException:
                    print(f"failed: {point}", flush=True)
                    raise
            done += 1
            if not was_killed:
                left.remove(kind)
        if not left or time.monotonic() > deadline:
            break
    print(f"{done} stories, {', '.join(left) or 'no kind'} not gone through")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
