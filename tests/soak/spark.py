"""Spark queries killed at every point of the exactly-once sink: `python -m tests.soak.spark`.

A query copies a topic in small batches. At a point of the sink all of its processes are killed at
once, the driver, its Java and the workers of tasks; the next run goes on from the checkpoint and is
killed at the next point. After each kill no row may be visible twice, and when the last run has
ended every row must be visible, once. A round with two queries on one checkpoint follows, and
rounds that kill at any time, until the time is over. `--round` runs one of these alone, or one
point.

Processes find the points by a module that Python loads into each of them (`spark_kills`).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random, SystemRandom

from tests.oracle.environment import wait_until
from tests.soak.spark_kills.kaa_kill_points import AT, BATCH, MARK, POINTS
from tests.spark.copying import Copy
from tests.spark.programs import shell
from tests.support.broker_process import BrokerProcess

RUN_SECONDS_MAX = 240
HOOKS = Path(__file__).with_name("spark_kills")
# Two batches of a hundred for each point, the one that is replayed and the next, and some more.
ROWS = 200 * len(POINTS) + 300
EVERY_POINT = "every point"
TWO_DRIVERS = "two drivers"
ANY_TIME = "any time"


def at_points(copy: Copy, points: Sequence[str]) -> str:
    """Runs that die, each at its point, and one that ends."""
    for point in points:
        started = time.monotonic()
        mark = copy.folder / "killed"
        mark.unlink(missing_ok=True)
        planned = [int(path.name) for path in copy.folder.glob("checkpoint/offsets/[0-9]*")]
        batch_id = max(planned, default=0) + 1
        paths = [str(HOOKS), *filter(None, [shell().get("PYTHONPATH")])]
        hooks = {AT: point, BATCH: str(batch_id), MARK: str(mark)}
        program = copy.start(**hooks, PYTHONPATH=os.pathsep.join(paths))
        try:
            program.process.wait(RUN_SECONDS_MAX)
        finally:
            program.kill()
        assert mark.exists(), f"{point} was not reached:\n{program.output}"
        rows = copy.check_so_far()
        seconds = time.monotonic() - started
        print(f"  {point:<28} batch {batch_id:>2} {seconds:5.0f} s  {rows} rows", flush=True)
    copy.start().end(RUN_SECONDS_MAX)
    return f"{copy.written()} records written"


def two_drivers(copy: Copy) -> str:
    """Two at once on one checkpoint; one that fails is started again, until both have ended."""
    programs = [copy.start(), copy.start()]
    failures = 0
    deadline = time.monotonic() + 2 * RUN_SECONDS_MAX
    while programs:
        for program in list(programs):
            code = program.process.poll()
            if code is None:
                continue
            program.kill()
            programs.remove(program)
            if code != 0:
                failures += 1
                # The one that is left goes on alone after a while, so that there is an end.
                if failures < 4 or not programs:
                    programs.append(copy.start())
        assert time.monotonic() < deadline, "the two do not come to an end"
        time.sleep(0.2)
    return f"{failures} runs gave up"


def any_time(copy: Copy, seed: int) -> str:
    """Three runs that die at any time, and one that ends."""
    random = Random(seed)
    for _ in range(3):
        before = copy.written()
        program = copy.start()
        enough = before + random.randrange(1, 300)
        wait_until(partial(_is_reached, copy, program.process, enough), RUN_SECONDS_MAX)
        time.sleep(random.random() / 2)
        program.kill()
    copy.start().end(RUN_SECONDS_MAX)
    return f"seed {seed}"


def _is_reached(copy: Copy, process: subprocess.Popen[bytes], enough: int) -> bool:
    return copy.written() >= enough or process.poll() is not None


def run_round(node: BrokerProcess, number: int, name: str, seed: int) -> None:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kaa-spark-", ignore_cleanup_errors=True) as folder:
        copy = Copy(node.bootstrap_servers, f"copy-{number}", Path(folder), ROWS)
        try:
            if name == TWO_DRIVERS:
                told = two_drivers(copy)
            elif name == ANY_TIME:
                told = any_time(copy, seed)
            else:
                told = at_points(copy, POINTS if name == EVERY_POINT else [name])
            copy.check()
        except (AssertionError, subprocess.SubprocessError):
            kept = Path(tempfile.mkdtemp(prefix="kaa-spark-failed-"), "output")
            kept.write_bytes((copy.folder / "output").read_bytes())
            again = f"--seconds 1 --seed {seed} --round '{name}'"
            print(f"failed: python -m tests.soak.spark {again}; its output: {kept}", flush=True)
            raise
    print(f"{name:<30} {time.monotonic() - started:5.0f} s  {told}", flush=True)


def main(arguments: list[str]) -> int:
    rounds = [EVERY_POINT, TWO_DRIVERS, ANY_TIME]
    parser = argparse.ArgumentParser(prog="python -m tests.soak.spark", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**31))
    parser.add_argument("--round", choices=[*rounds, *POINTS])
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + options.seconds
    waiting = [options.round] if options.round else rounds
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder, "node")) as node:
        number = 0
        while waiting or (time.monotonic() < deadline and not options.round):
            name = waiting.pop(0) if waiting else ANY_TIME
            run_round(node, number, name, options.seed + number)
            number += 1
        node.check_health()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
