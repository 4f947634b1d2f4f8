"""A disk of a cluster that dies and is replaced: what others have comes back, from their leaders.

Three nodes, two directories each. One of the second directories is emptied while its node is down,
and formatted as a new disk. Its replicas are filled again, and led by it if it is alone with them
afterwards; a topic whose only copy was there is not made again empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.client.admin.admin import NewTopic
from kaa.client.sync import Admin, Producer
from kaa.log.files import remove_tree
from kaa.log.properties import MetaProperties, read_meta_properties, write_meta_properties
from kaa.model.topics import TopicPartition
from kaa.replication.partition import Partition
from kaa.testing import Cluster
from kaa.testing.cluster_nodes import MemoryNode
from kaa.wire.errors import Errors
from tests.oracle.environment import wait_until
from tests.support.ids import uuid
from tests.support.pace import PATIENCE_SECONDS
from tests.unit.replication.movers import contents

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.log.log import UnifiedLog

FIRST, SECOND = "/data/one", "/data/two"
SETTINGS = {"log.dirs": f"{FIRST},{SECOND}", "metadata.log.dir": FIRST}
PARTITIONS = 4
RECORDS = 50


def node(cluster: Cluster, node_id: int) -> MemoryNode:
    found = cluster._nodes[node_id]
    assert isinstance(found, MemoryNode)
    return found


def find(cluster: Cluster, node_id: int, topic: str, number: int) -> Partition | Errors:
    broker = node(cluster, node_id).broker
    assert broker is not None
    return broker.services.replicas.find(topic, number)


def log(cluster: Cluster, node_id: int, number: int) -> UnifiedLog | None:
    found = find(cluster, node_id, "shared", number)
    return found.log if isinstance(found, Partition) else None


def wait(condition: Callable[[], object]) -> None:
    assert wait_until(lambda: bool(condition()), PATIENCE_SECONDS)


def is_filled(cluster: Cluster, node_id: int) -> bool:
    logs = [log(cluster, node_id, number) for number in range(PARTITIONS)]
    return all(one is not None and one.high_watermark == RECORDS for one in logs)


def replace(cluster: Cluster, node_id: int) -> None:
    """A new disk, formatted for the node."""
    files = node(cluster, node_id).files
    identity = read_meta_properties(files, FIRST)
    assert identity is not None
    remove_tree(files, SECOND)
    files.make_directory(SECOND)
    own = MetaProperties(identity.node_id, identity.cluster_id, uuid(900))
    write_meta_properties(files, SECOND, own, "test")


def test_new_disk_is_filled_from_the_leaders_and_the_only_copy_is_not_made_empty() -> None:
    alone = NewTopic("alone", assignments=dict.fromkeys(range(PARTITIONS), (1,)))
    shared = NewTopic("shared", assignments=dict.fromkeys(range(PARTITIONS), (1, 2, 3)))
    with Cluster(overrides=SETTINGS) as cluster:
        servers = {"bootstrap.servers": cluster.bootstrap_servers}
        with Admin(servers) as admin:
            assert not any(admin.create_topics([alone, shared]).values())
        with Producer(servers) as producer:
            for number in range(PARTITIONS * RECORDS):
                for topic in ("alone", "shared"):
                    producer.send(topic, f"{number}", partition=number % PARTITIONS)
        wait(lambda: all(is_filled(cluster, node_id) for node_id in (1, 2, 3)))
        files = node(cluster, 1).files
        names = files.list_directory(SECOND)
        gone = {name for name in names if name.startswith(("alone", "shared"))}
        assert {name.split("-")[0] for name in gone} == {"alone", "shared"}
        cluster.kill(1, keep_unflushed=True)
        replace(cluster, 1)
        cluster.restart(1)
        wait(lambda: is_filled(cluster, 1))
        for number in range(PARTITIONS):
            own, other = log(cluster, 1, number), log(cluster, 2, number)
            assert own is not None
            assert other is not None
            assert contents(own)["records"] == contents(other)["records"]
            only = find(cluster, 1, "alone", number)
            if TopicPartition("alone", number) in {_parsed(name) for name in gone}:
                assert only is Errors.KAFKA_STORAGE_ERROR
            else:
                assert isinstance(only, Partition)
                assert only.online_log().log_end_offset == RECORDS
        assert any("no empty log takes their place" in line for line in cluster.reports(1))


def _parsed(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
