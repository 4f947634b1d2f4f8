"""Runs fuzz targets, each for a while: `python -m tests.fuzz [--seconds N] [--keep] [target...]`.

Each run starts from the checked-in corpus and from honest inputs. One line tells of each target how
many inputs it ran, for how long, and how many of them reached something new; `--keep` adds those to
the corpus. An input that breaks a promise is written under `build/fuzz` and named.
Where there is no atheris the corpus is replayed, which the tests do as well.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]
BROKEN = ROOT / "build" / "fuzz"
SECONDS_EACH = 60
GRACE_SECONDS = 60
INPUT_SECONDS_MAX = 20
MEMORY_MB_MAX = 1_024


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=SECONDS_EACH, help="time of each target")
    parser.add_argument("--keep", action="store_true", help="add what is found to the corpus")
    parser.add_argument("target", nargs="*", help=f"all if none is named: {', '.join(TARGETS)}")
    options = parser.parse_args(arguments)
    unknown = set(options.target) - set(TARGETS)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    chosen = [TARGETS[name] for name in options.target or TARGETS]
    return run_all(chosen, options.seconds, keep=options.keep)


def run_all(targets: list[Target], seconds: int, *, keep: bool = False) -> int:
    """Runs targets one after the other; returns an exit code."""
    run = fuzz if find_spec("atheris") else replay
    results = [run(target, seconds, keep=keep) for target in targets]
    return 0 if all(results) else 1


def replay(target: Target, seconds: int, *, keep: bool) -> bool:
    started = time.monotonic()
    inputs = [*target.corpus(), *target.seeds()]
    for data in inputs:
        target.run(data)
    elapsed = time.monotonic() - started
    print(f"{target.name:<12} {len(inputs):>9} runs {elapsed:5.0f} s  replayed, no atheris here")
    return True


def fuzz(target: Target, seconds: int, *, keep: bool) -> bool:
    started = time.monotonic()
    with TemporaryDirectory(prefix="kaa-fuzz-") as name:
        known, found = Path(name, "known"), Path(name, "found")
        write_inputs(known, [*target.corpus(), *target.seeds()])
        found.mkdir()
        ran = child(target, seconds, str(found), str(known), f"-max_total_time={seconds}")
        new = [path.read_bytes() for path in found.iterdir()]
    if keep:
        target.keep([*target.corpus(), *new])
    executed = re.search(r"number_of_executed_units: (\d+)", ran.stderr)
    runs = executed[1] if executed else "?"
    state = "ok" if ran.returncode == 0 else f"FAILED, see {BROKEN.relative_to(ROOT)}"
    elapsed = time.monotonic() - started
    print(
        f"{target.name:<12} {runs:>9} runs {elapsed:5.0f} s {len(new):>6} new corpus files  {state}"
    )
    if ran.returncode != 0:
        print(ran.stderr[-4_000:])
    return ran.returncode == 0


def child(target: Target, seconds: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    BROKEN.mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        [
            *(sys.executable, "-m", "tests.fuzz.child", target.name),
            *(f"-max_len={target.input_bytes_max}", f"-rss_limit_mb={MEMORY_MB_MAX}"),
            *(f"-timeout={INPUT_SECONDS_MAX}", f"-artifact_prefix={BROKEN}/{target.name}-"),
            *("-print_final_stats=1", *arguments),
        ],
        capture_output=True,
        check=False,
        cwd=ROOT,
        errors="replace",
        text=True,
        timeout=seconds + GRACE_SECONDS,
    )


def write_inputs(folder: Path, inputs: list[bytes]) -> None:
    folder.mkdir()
    for index, data in enumerate(inputs):
        (folder / str(index)).write_bytes(data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
