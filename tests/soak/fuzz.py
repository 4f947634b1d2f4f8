"""All fuzz targets for a while: `python -m tests.soak.fuzz --seconds N`, N for all together."""

from __future__ import annotations

import argparse
import sys

from tests.fuzz.__main__ import run_all
from tests.fuzz.targets import TARGETS


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    seconds: int = parser.parse_args(arguments).seconds
    return run_all([*TARGETS.values()], max(1, seconds // len(TARGETS)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
