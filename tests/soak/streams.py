"""Kafka Streams' smoke test on three nodes that are killed, paused and stopped while their
partitions move: `scripts/soak streams`.

Each round is one protocol (classic groups, streams groups) with one guarantee; four rounds, of two
minutes and more each, are all of them. The last one that is begun in time is finished.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from kaa.client.errors import ClientError
from kaa.client.sync import Admin
from kaa.model.topics import TopicPartition
from tests.exactly_once.java import Java
from tests.exactly_once.smoke import GUARANTEES, PROTOCOLS, SmokeTest
from tests.oracle.environment import command
from tests.oracle.maven import PROGRAMS, jars
from tests.process.cluster_faults import Fault, Faults
from tests.support.cluster_process import ClusterProcesses


class Disturbance:
    """Turns the order of replicas round, so that leaders and followers change places and all of
    them are asked for by a reassignment; then a fault.
    """

    def __init__(self, cluster: ClusterProcesses, seed: int) -> None:
        self._random = Random(seed)
        self._nodes = sorted(cluster.nodes)
        self._bootstrap_servers = cluster.bootstrap_servers
        self._faults = Faults(cluster, seed, list(Fault))
        self.counts: Counter[str] = Counter()

    def next(self) -> None:
        self._faults.next()
        kind, _ = self._faults.happened[-1]
        self.counts[kind.name.lower()] += 1
        with Admin({"bootstrap.servers": self._bootstrap_servers}) as admin:
            try:
                wanted = {
                    TopicPartition(topic.name, one.partition): self._random.sample(
                        self._nodes, len(self._nodes) - self._random.randrange(2)
                    )
                    for topic in admin.list_topics(internal=True)
                    for one in topic.partitions
                }
                admin.alter_partition_reassignments(wanted)
                self.counts["partitions reassigned"] += len(wanted)
            except ClientError:
                # A cluster that was just killed may have no controller yet.
                self.counts["reassignments refused"] += 1


def run(seed: int, protocol: str, guarantee: str) -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        ClusterProcesses(Path(name) / "nodes") as cluster,
        Java(command("java", "run Kafka's programs"), jars(artifacts=PROGRAMS), Path(name)) as java,
    ):
        disturbance = Disturbance(cluster, seed)
        smoke_test = SmokeTest(
            java,
            cluster.bootstrap_servers,
            Path(name) / "streams",
            protocol=protocol,
            guarantee=guarantee,
            replicas=3,
        )
        smoke_test.disturbed_by(disturbance.next).finish()
        cluster.check_health()
    named = ", ".join(f"{count} {name}" for name, count in sorted(disturbance.counts.items()))
    print(f"seed {seed}, {protocol}, {guarantee}: sound; {named}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ends = time.monotonic() + options.seconds
    kinds = itertools.cycle(itertools.product(PROTOCOLS, GUARANTEES))
    for seed, (protocol, guarantee) in enumerate(kinds, options.seed):
        print(f"seed {seed}: {protocol}, {guarantee}", flush=True)
        run(seed, protocol, guarantee)
        if time.monotonic() >= ends:
            return 0
    raise AssertionError("kinds come without end")


if __name__ == "__main__":
    sys.exit(main())
