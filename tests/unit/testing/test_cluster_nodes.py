from __future__ import annotations

from kaa.client.sync.admin import Admin
from kaa.testing import Cluster


def test_a_node_may_be_killed_while_it_is_paused() -> None:
    with Cluster(1) as cluster:
        cluster.pause(1)
        cluster.pause(1)
        cluster.kill(1)
        assert not cluster.bootstrap_servers
        cluster.heal()
        cluster.restart(1)
        assert cluster.controller == 1
        with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
            assert len(admin.describe_cluster().brokers) == 1
