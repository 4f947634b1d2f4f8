"""Three nodes of Apache Kafka become Kaa by rolling restarts under load, and go back:
`scripts/soak migration`.

Kafka is rolled to Kafka first. Then it says for each of the three rolls how long the longest pause
of a partition was, and fails if something was lost or doubled, or a history has an anomaly.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.histories.checks import check
from tests.histories.workload import Workload
from tests.process.counting import Counting
from tests.process.rolling import RollingCluster


def roll(seed: int) -> bool:
    """Goes all the way once; tells whether the histories are sound."""
    with (
        tempfile.TemporaryDirectory(prefix="kaa-roll-") as folder,
        RollingCluster(Path(folder)) as cluster,
    ):
        counting = Counting(cluster.bootstrap_servers)
        counting.start()
        workload = Workload(cluster.bootstrap_servers, "history", seed=seed, replicas=3)
        ways = (
            ("Kafka to Kafka", cluster.become_kafka),
            ("Kafka to Kaa", cluster.become_kaa),
            ("Kaa to Kafka", cluster.become_kafka),
        )
        steps = iter([(name, way, each) for name, way in ways for each in cluster.node_ids])
        rolling = _Rolling(counting, steps)
        operations = workload.run_until(rolling.is_over.is_set, rolling.next)
        counting.finish()
        anomalies = check(operations)
    for name, pauses in rolling.pauses.items():
        listed = ", ".join(f"{pause:.1f}" for pause in pauses)
        print(f"seed {seed}: {name}: longest pause of a partition {listed} s", flush=True)
    print(
        f"seed {seed}: {len(operations)} operations, {len(counting.acknowledged)} counted records; "
        f"{len(anomalies)} anomalies",
        flush=True,
    )
    for anomaly in anomalies:
        print(f"  {anomaly}")
    return not anomalies


class _Rolling:
    def __init__(
        self, counting: Counting, steps: Iterator[tuple[str, Callable[[int], None], int]]
    ) -> None:
        self._counting = counting
        self._steps = steps
        self.is_over = threading.Event()
        self.pauses: dict[str, list[float]] = {}

    def next(self) -> None:
        step = next(self._steps, None)
        if step is None:
            self.is_over.set()
            return
        name, way, node_id = step
        threading.Event().wait(2)
        self._counting.take_longest_pause()
        way(node_id)
        threading.Event().wait(2)
        self.pauses.setdefault(name, []).append(self._counting.take_longest_pause())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ends = time.monotonic() + options.seconds
    seed, are_sound = options.seed, True
    while True:
        are_sound = roll(seed) and are_sound
        seed += 1
        if time.monotonic() >= ends:
            return 0 if are_sound else 1


if __name__ == "__main__":
    sys.exit(main())
