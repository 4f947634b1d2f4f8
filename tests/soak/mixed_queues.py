"""A queue on nodes of Kaa and Apache Kafka in one cluster: `scripts/soak mixed_queues`.

Two nodes of Kaa and one of Kafka, then one and two, each once with pauses that nobody notices and
once with pauses after which others lead. What `tests/process/queue_story.py` does to the nodes, it
does to those of both systems: share partitions, their state and their group go from one to the
other with what the other wrote. Stories with new seeds go on until time is up; one of each mix is
always told to its end. The folder of a story that fails is kept: the logs of all nodes, what each
of their lives printed, and what the members saw.

Not every failure is Kaa's. Where Kafka 4.3.1 leads a partition and keeps its state too, a late
write takes the start offset back, and acknowledged records come again if the leader changes then:
in `__share_group_state` the start offset of a share partition falls from one update to the next.
With `--kaa 0` all three nodes are of Kafka.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.oracle.client import Oracle
from tests.process.queue_story import LONG_SECONDS, SETTINGS, SHORT_SECONDS, check, tell
from tests.process.queue_workers import RECORDS, Workers
from tests.support import cluster_process
from tests.support.mixed_cluster import MixedCluster

MIXES = (((2, 3), (1,)), ((3,), (1, 2)))
KAFKA_ALONE: tuple[tuple[int, ...], tuple[int, ...]] = ((), (1, 2, 3))
STORIES = tuple(itertools.product(MIXES, (SHORT_SECONDS, LONG_SECONDS)))


def run(
    oracle: Oracle, seed: int, kaa: tuple[int, ...], kafka: tuple[int, ...], pause_seconds: float
) -> str:
    """One story; what was done to whom."""
    settings = (*cluster_process.SETTINGS, *SETTINGS)
    with (
        _kept_if_failed() as folder,
        MixedCluster(folder, oracle, kaa, kafka, is_dynamic=True, settings=settings) as made,
    ):
        workers = Workers(made.bootstrap_servers, Random(seed))
        try:
            harm = asyncio.run(tell(made, workers, pause_seconds))
            check(workers, pause_seconds)
        except BaseException:
            (folder / "history").write_text("".join(f"{event}\n" for event in workers.history))
            raise
    system = dict.fromkeys(kaa, "Kaa") | dict.fromkeys(kafka, "Kafka")
    told = Counter[str]()
    for (what, node_id), count in harm.done.items():
        told[f"{what} of {system[node_id]}"] += count
    named = ", ".join(f"{count} {what}" for what, count in sorted(told.items()))
    return f"{len(workers.ended)} of {RECORDS} answered as ended; {named}"


@contextmanager
def _kept_if_failed() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="kaa-mixed-queue-"))
    try:
        yield folder
    except BaseException:
        print(f"failed; kept: {folder}", flush=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.mixed_queues", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1, help="of the first story")
    parser.add_argument("--kaa", type=int, help="only mixes with so many nodes of Kaa")
    options = parser.parse_args(arguments)
    stories = [one for one in STORIES if options.kaa is None or len(one[0][0]) == options.kaa]
    if options.kaa == 0:
        stories = [(KAFKA_ALONE, pause_seconds) for pause_seconds in (SHORT_SECONDS, LONG_SECONDS)]
    deadline = time.monotonic() + options.seconds
    # That a node that was killed cannot be reached is not news.
    logging.getLogger("kaa.client").setLevel(logging.ERROR)
    with Oracle() as oracle:
        for seed in itertools.count(options.seed):
            place = seed - options.seed
            if place >= len(stories) and time.monotonic() > deadline:
                return 0
            (kaa, kafka), pause_seconds = stories[place % len(stories)]
            name = f"seed {seed}, {len(kaa)} Kaa, {len(kafka)} Kafka, pauses of {pause_seconds} s"
            print(name, end=": ", flush=True)
            began = time.monotonic()
            found = run(oracle, seed, kaa, kafka, pause_seconds)
            print(f"{found}; {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
