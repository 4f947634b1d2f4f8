"""Histories of transactions over three nodes with faults, seed after seed: `scripts/soak cluster`.

Each seed has processes that are killed, paused and stopped, then the same under Kafka's verifiable
clients and transactional copiers, and then nodes that lose what they had not flushed. A failure
prints its seed and every anomaly; `--seed` begins with that one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from kaa.testing import Cluster
from tests.exactly_once import bounces
from tests.exactly_once.java import Java
from tests.histories.checks import check
from tests.histories.model import Operation
from tests.histories.workload import Workload
from tests.oracle.environment import command
from tests.oracle.maven import PROGRAMS, jars
from tests.process.cluster_faults import Fault, Faults
from tests.process.test_power_cuts import SETTINGS, PowerCuts
from tests.support.cluster_process import ClusterProcesses

SECONDS_EACH = 90


def run(seed: int, seconds: float) -> bool:
    """Runs one seed; tells whether its histories are sound."""
    return (
        run_processes(seed, seconds)
        and run_programs(seed, seconds)
        and run_power_cuts(seed, seconds)
    )


def run_processes(seed: int, seconds: float) -> bool:
    with tempfile.TemporaryDirectory() as folder, ClusterProcesses(Path(folder)) as cluster:
        faults = Faults(cluster, seed, list(Fault))
        workload = Workload(cluster.bootstrap_servers, "history", seed=seed, replicas=3)
        operations = workload.run(seconds, faults.next)
        cluster.check_health()
    counts = Counter(fault.name.lower() for fault, _ in faults.happened)
    return report(seed, operations, counts)


def run_programs(seed: int, seconds: float) -> bool:
    """Kafka's own programs instead of ours."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ClusterProcesses(Path(folder) / "nodes") as cluster,
        Java(
            command("java", "run Kafka's programs"), jars(artifacts=PROGRAMS), Path(folder)
        ) as java,
    ):
        faults = Faults(cluster, seed, list(Fault))
        done = bounces.run(java, cluster.bootstrap_servers, seconds, faults.next)
        cluster.check_health()
    counts = Counter(fault.name.lower() for fault, _ in faults.happened)
    named = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    print(f"seed {seed}, Kafka's programs: {done}, faults: {named}", flush=True)
    return True


def run_power_cuts(seed: int, seconds: float) -> bool:
    with Cluster(3, overrides=SETTINGS) as cluster:
        cuts = PowerCuts(cluster, seed)
        workload = Workload(cluster.bootstrap_servers, "history", seed=seed, replicas=3)
        operations = workload.run(seconds, cuts.next)
    return report(seed, operations, Counter({"power cuts": cuts.count}))


def report(seed: int, operations: list[Operation], faults: Counter[str]) -> bool:
    anomalies = check(operations)
    named = ", ".join(f"{count} {name}" for name, count in sorted(faults.items()))
    print(
        f"seed {seed}: {len(operations)} operations, faults: {named}; {len(anomalies)} anomalies",
        flush=True,
    )
    for anomaly in anomalies:
        print(f"  {anomaly}")
    return not anomalies


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ends = time.monotonic() + options.seconds
    seed, are_sound = options.seed, True
    while (left := ends - time.monotonic()) > 0:
        # A third of it for each of the three kinds.
        are_sound = run(seed, min(SECONDS_EACH, left) / 3) and are_sound
        seed += 1
    return 0 if are_sound else 1


if __name__ == "__main__":
    sys.exit(main())
