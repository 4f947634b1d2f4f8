"""A node of three loses what it had not flushed, as by a power cut, again and again: what was
acknowledged is on another one, and the node that comes back is not taken for its former self.
"""

from __future__ import annotations

import threading
from random import Random

from kaa.testing import Cluster
from tests.histories.checks import check
from tests.histories.workload import Workload

SECONDS = 12
SETTINGS = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "200",
}


class PowerCuts:
    """One node at a time, which has come back before the next one goes."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._random = Random(seed)
        self.count = 0

    def next(self) -> None:
        wait = threading.Event().wait
        wait(self._random.uniform(0.5, 2))
        node_id = self._random.randint(1, 3)
        self._cluster.kill(node_id)
        # Shorter and longer than its session.
        wait(self._random.uniform(0, 4))
        self._cluster.restart(node_id)
        self.count += 1


def test_nothing_acknowledged_is_lost_with_what_one_node_did_not_flush() -> None:
    with Cluster(3, overrides=SETTINGS) as cluster:
        cuts = PowerCuts(cluster, seed=1)
        workload = Workload(cluster.bootstrap_servers, "history", seed=1, replicas=3)
        operations = workload.run(SECONDS, cuts.next)
    assert cuts.count > 1
    assert check(operations) == []
