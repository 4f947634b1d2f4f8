"""A replica moves between the directories of its broker while leadership goes elsewhere.

Three nodes, two directories each. Replica 1 leads and replica 2 follows, and both are on the move.
Then node 1 is cut off with records that nobody else has: another one leads, and when node 1 is back
it cuts its log, of which the copy had everything. The moves go on, on a replica that follows now
and on those that lead or follow another one, as Kafka's do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.client.admin.admin import NewTopic
from kaa.client.sync import Admin, Producer
from kaa.model.topics import TopicPartition
from kaa.replication.partition import Partition
from kaa.testing import Cluster
from kaa.testing.cluster_nodes import MemoryNode
from tests.oracle.environment import wait_until
from tests.support.pace import PATIENCE_SECONDS
from tests.unit.replication.movers import contents

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = TopicPartition("t", 0)
DIRECTORIES = ("/data/one", "/data/two")
SETTINGS = {
    "log.dirs": ",".join(DIRECTORIES),
    "metadata.log.dir": DIRECTORIES[0],
    "min.insync.replicas": "1",
}


def node(cluster: Cluster, node_id: int) -> MemoryNode:
    found = cluster._nodes[node_id]
    assert isinstance(found, MemoryNode)
    return found


def partition(cluster: Cluster, node_id: int) -> Partition:
    broker = node(cluster, node_id).broker
    assert broker is not None
    found = broker.services.replicas.find(*KEY)
    assert isinstance(found, Partition), found
    return found


def state(cluster: Cluster, node_id: int) -> dict[str, Any]:
    """What the replica has: records, epochs, producers. Nobody writes to it any more."""
    return contents(partition(cluster, node_id).online_log())


def path(cluster: Cluster, node_id: int) -> str:
    return partition(cluster, node_id).online_log().directory.path


def futures(cluster: Cluster, node_id: int) -> list[str]:
    files = node(cluster, node_id).files
    return [
        name
        for directory in DIRECTORIES
        for name in files.list_directory(directory)
        if name.startswith(f"{KEY}.") and name.endswith("-future")
    ]


def copied(cluster: Cluster, node_id: int) -> int:
    """How far the copy has come."""
    broker = node(cluster, node_id).broker
    assert broker is not None
    return broker.services.logs.futures.logs[KEY].log_end_offset


def wait(condition: Callable[[], object]) -> None:
    assert wait_until(lambda: bool(condition()), PATIENCE_SECONDS)


def produce(servers: str, values: list[str], **settings: str) -> None:
    with Producer({"bootstrap.servers": servers, "linger.ms": "0"} | settings) as producer:
        for value in values:
            producer.send(KEY.topic, value + "." * 400).result()


def address(cluster: Cluster, node_id: int) -> str:
    return f"127.0.0.1:{node(cluster, node_id).ports[0]}"


def test_moves_go_on_whoever_leads() -> None:
    kept = [f"kept {number}" for number in range(150)]
    with Cluster(overrides=SETTINGS) as cluster:
        with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
            topic = NewTopic(KEY.topic, assignments={0: (1, 2, 3)})
            assert not any(admin.create_topics([topic]).values())
            produce(cluster.bootstrap_servers, kept[:100], acks="all")
            sources = {node_id: partition(cluster, node_id).online_log() for node_id in (1, 2)}
            for source in sources.values():
                # Busy, so that a copy that has everything does not take its place yet.
                source.is_cleaning = True
            targets = {
                node_id: next(each for each in DIRECTORIES if each != path(cluster, node_id))
                for node_id in sources
            }
            moves = {(node_id, KEY): target for node_id, target in targets.items()}
            assert not any(admin.alter_replica_log_dirs(moves).values())
        for other in (2, 3):
            cluster.cut(1, other)
        produce(address(cluster, 1), ["lost"] * 20, acks="1")
        wait(lambda: copied(cluster, 1) == sources[1].log_end_offset == 120)
        wait(lambda: partition(cluster, 2).is_leader or partition(cluster, 3).is_leader)
        produce(address(cluster, 2), kept[100:], acks="all")
        cluster.heal()
        wait(lambda: sources[1].log_end_offset == 150)
        for node_id, source in sources.items():
            assert len(futures(cluster, node_id)) == 1
            source.is_cleaning = False
        wait(lambda: all(path(cluster, each) == to for each, to in targets.items()))
        ids = (1, 2, 3)
        wait(
            lambda: {partition(cluster, each).online_log().high_watermark for each in ids} == {150}
        )
        first, *others = (state(cluster, node_id) for node_id in ids)
        assert all(other == first for other in others)
        for node_id in ids:
            assert futures(cluster, node_id) == []
        found = bytes(first["records"])
        assert b"lost" not in found
        positions = [found.index(value.encode() + b".") for value in kept]
        assert positions == sorted(positions)
