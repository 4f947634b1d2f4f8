"""Spark queries killed at every point of the exactly-once sink: `python -m tests.soak.spark`.

A query copies a topic in small batches. At a point that the round names, all of its processes are
killed at once, the driver, its Java and the workers of tasks; another run goes on from the
checkpoint and ends. Then every row must be visible, once. A round with two queries on one
checkpoint follows, and rounds that kill at any time, until the time is over; `--point` runs one
round again.

Processes find the points by a module that Python loads into each of them (`spark_kills`).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from random import Random, SystemRandom

from tests.oracle.environment import wait_until
from tests.soak.spark_kills.kaa_kill_points import AT, MARK, POINTS
from tests.spark.copying import Copy
from tests.spark.programs import shell
from tests.support.broker_process import BrokerProcess

RUN_SECONDS_MAX = 240
HOOKS = Path(__file__).with_name("spark_kills")
TWO_DRIVERS = "two drivers"
ANY_TIME = "any time"


def at_point(copy: Copy, point: str) -> str:
    """A run that dies at a point, and one that ends."""
    mark = copy.folder / "killed"
    paths = [str(HOOKS), *filter(None, [shell().get("PYTHONPATH")])]
    hooks = {AT: point, MARK: str(mark), "PYTHONPATH": os.pathsep.join(paths)}
    program = copy.start(**hooks)
    try:
        program.process.wait(RUN_SECONDS_MAX)
    finally:
        program.kill()
    assert mark.exists(), f"the point was not reached:\n{program.output}"
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
        more = random.randrange(1, 300)

        process, enough = program.process, before + more
        wait_until(partial(_is_reached, copy, process, enough), RUN_SECONDS_MAX)
        time.sleep(random.random() / 2)
        program.kill()
    copy.start().end(RUN_SECONDS_MAX)
    return f"seed {seed}"


def _is_reached(copy: Copy, process: subprocess.Popen[bytes], enough: int) -> bool:
    return copy.written() >= enough or process.poll() is not None


def run_round(node: BrokerProcess, number: int, point: str, seed: int) -> None:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kaa-spark-", ignore_cleanup_errors=True) as folder:
        copy = Copy(node.bootstrap_servers, f"copy-{number}", Path(folder))
        if point == TWO_DRIVERS:
            told = two_drivers(copy)
        elif point == ANY_TIME:
            told = any_time(copy, seed)
        else:
            told = at_point(copy, point)
        try:
            copy.check()
        except AssertionError:
            kept = Path(tempfile.mkdtemp(prefix="kaa-spark-failed-"), "output")
            kept.write_bytes((copy.folder / "output").read_bytes())
            print(f"the output of the runs is in {kept}", flush=True)
            raise
    print(f"{point:<28} {time.monotonic() - started:5.0f} s  {told}", flush=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.spark", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**31))
    parser.add_argument("--point", choices=[*POINTS, TWO_DRIVERS, ANY_TIME])
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + options.seconds
    waiting = [options.point] if options.point else [*POINTS, TWO_DRIVERS, ANY_TIME]
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder, "node")) as node:
        number = 0
        while waiting or (time.monotonic() < deadline and not options.point):
            point = waiting.pop(0) if waiting else ANY_TIME
            seed = options.seed + number
            try:
                run_round(node, number, point, seed)
            except (AssertionError, subprocess.SubprocessError):
                again = f"--seconds 1 --seed {seed} --point '{point}'"
                print(f"failed: python -m tests.soak.spark {again}", flush=True)
                raise
            number += 1
        node.check_health()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
