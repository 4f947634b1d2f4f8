"""Every partition moves to other brokers again and again while clients work: the topics of the
clients, and those of the coordinators, which move with them.
"""

from __future__ import annotations

from random import Random

from kaa.client.sync.admin import Admin
from kaa.model.topics import TopicPartition
from kaa.testing import Cluster
from tests.histories.checks import check
from tests.histories.workload import Workload
from tests.oracle.environment import wait_until
from tests.process.counting import Counting
from tests.support.pace import PATIENCE_SECONDS

BROKERS = (1, 2, 3, 4)
SECONDS = 8
SETTINGS = {"min.insync.replicas": "2", "default.replication.factor": "3"}


class Moves:
    """Moves all partitions once each time it is called, to replicas that are drawn."""

    def __init__(self, admin: Admin, seed: int) -> None:
        self._admin = admin
        self._random = Random(seed)
        self.count = 0

    def next(self) -> None:
        wanted = {
            TopicPartition(topic.name, one.partition): self._random.sample(BROKERS, 3)
            for topic in self._admin.list_topics(internal=True)
            for one in topic.partitions
        }
        outcome = self._admin.alter_partition_reassignments(wanted)
        assert not any(outcome.values()), outcome
        assert wait_until(
            lambda: not self._admin.list_partition_reassignments(), PATIENCE_SECONDS
        ), "replicas did not move"
        self.count += len(wanted)


def test_nothing_is_lost_or_doubled_while_everything_moves() -> None:
    with Cluster(len(BROKERS), overrides=SETTINGS) as cluster:
        counting = Counting(cluster.bootstrap_servers)
        counting.start()
        workload = Workload(cluster.bootstrap_servers, "history", seed=1, replicas=3)
        with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
            moves = Moves(admin, seed=1)
            operations = workload.run(SECONDS, moves.next)
        counting.finish()
    assert moves.count > 0
    assert check(operations) == []
