"""Runs the static checks two at a time; prints one line each, and the output of those that fail.

`versions` is not a static check: it tries every Python that Kaa runs on (`_versions`).
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = Path(sys.executable).parent

# The slowest first, so that the others run beside it.
STEPS = {
    "types": ["mypy"],
    "format": ["ruff", "format", "--check", "."],
    "lint": ["ruff", "check", "."],
    "imports": ["lint-imports", "--no-logo"],
    "tidy": ["pytest", "-q", "tests/unit/test_tidy.py"],
}


class Result(NamedTuple):
    """How one step ended."""

    name: str
    is_good: bool
    seconds: float
    output: str


def run(name: str, command: list[str]) -> Result:
    """Runs one step to its end."""
    started = time.monotonic()
    program, *arguments = command
    answer = subprocess.run(
        [PROGRAMS / program, *arguments],
        check=False,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return Result(name, answer.returncode == 0, time.monotonic() - started, answer.stdout)


def main(names: list[str]) -> int:
    """Runs the named steps, or all."""
    if names[:1] == ["versions"]:
        from scripts._versions import main as try_versions

        return try_versions(names[1:])
    unknown = set(names) - set(STEPS)
    if unknown:
        print(f"No such step: {', '.join(sorted(unknown))}. Steps: {', '.join(STEPS)}, versions.")
        return 2
    started = time.monotonic()
    failed = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        chosen = {name: command for name, command in STEPS.items() if not names or name in names}
        pending = [pool.submit(run, name, command) for name, command in chosen.items()]
        for future in as_completed(pending):
            result = future.result()
            state = "ok" if result.is_good else "FAILED"
            print(f"{result.name:<8} {state:<6} {result.seconds:6.1f} s", flush=True)
            if not result.is_good:
                failed.append(result.name)
                print(result.output.rstrip(), flush=True)
    verdict = f"failed: {', '.join(failed)}" if failed else "all good"
    print(f"{len(pending)} checks in {time.monotonic() - started:.1f} s, {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
