"""Three nodes of Apache Kafka become three of Kaa by rolling restarts, under load.

`scripts/soak migration` goes back as well, with transactions, and measures pauses.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.counting import Counting
from tests.process.rolling import RollingCluster

pytestmark = pytest.mark.oracle


def test_a_cluster_of_kafka_becomes_one_of_kaa(tmp_path: Path) -> None:
    with RollingCluster(tmp_path) as cluster:
        counting = Counting(cluster.bootstrap_servers)
        counting.start()
        for node_id in cluster.node_ids:
            cluster.become_kaa(node_id)
        counting.finish()
        cluster.kaa.check_health()
