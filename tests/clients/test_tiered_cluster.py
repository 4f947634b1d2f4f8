"""Tiered topics of a cluster: leaders that die, replicas that come anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kaa.testing import Cluster
from kaa.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.support.pace import PATIENCE_SECONDS
from tests.support.raw import RawClient
from tests.support.tiered import (
    EARLIEST,
    EARLIEST_LOCAL,
    QUICK,
    TIERED,
    fill,
    make_topic,
    offset_of,
    read,
    until,
    value,
    wait_until_tiered,
)

COUNT = 2_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    store: Path = tmp_path_factory.mktemp("tier")
    settings = dict(setting.split("=", 1) for setting in QUICK)
    settings["rsm.config.url"] = store.as_uri()
    settings["follower.fetch.last.tiered.offset.enable"] = "true"
    with Cluster(overrides=settings) as made:
        yield made


def leader_of(servers: str, topic: str) -> tuple[str, int, list[int]]:
    """The address and id of the leader, and the in-sync replicas."""
    admin = AdminClient({"bootstrap.servers": servers})
    metadata = admin.list_topics(topic, PATIENCE_SECONDS)
    partition = metadata.topics[topic].partitions[0]
    broker = metadata.brokers.get(partition.leader)
    address = "" if broker is None else f"{broker.host}:{broker.port}"
    return address, partition.leader, sorted(partition.isrs)


def move(servers: str, topic: str, *replicas: int) -> None:
    asked = ReassignablePartition(partition_index=0, replicas=list(replicas))
    topics = [ReassignableTopic(name=topic, partitions=[asked])]
    with RawClient(servers.partition(",")[0]) as client:
        answer = client.ask(AlterPartitionReassignmentsRequest(topics=topics))
    assert answer.error_code == answer.responses[0].partitions[0].error_code == 0, answer
    until(lambda: leader_of(servers, topic)[2] == sorted(replicas), f"{topic} is on {replicas}")


def test_another_leader_has_the_whole_history(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    make_topic(servers, "history", 3)
    fill(servers, "history", COUNT)
    address, leader, _ = leader_of(servers, "history")
    wait_until_tiered(address, "history")
    cluster.kill(leader)
    until(lambda: leader_of(servers, "history")[1] not in {leader, -1}, "another leads")
    fill(servers, "history", COUNT, COUNT)
    address, _, _ = leader_of(servers, "history")
    until(lambda: offset_of(address, "history", EARLIEST_LOCAL) > COUNT, "it is tiered on")
    assert offset_of(address, "history", EARLIEST) == 0
    assert read(servers, "history", 0, 2 * COUNT) == [value(number) for number in range(2 * COUNT)]
    cluster.restart(leader)
    until(lambda: leader_of(servers, "history")[2] == [1, 2, 3], "all are in sync")


def test_a_new_replica_takes_the_tail_alone(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    make_topic(servers, "moved", 1)
    # Three segments, and what they hold of producers and epochs, are not on the new disk.
    fill(servers, "moved", COUNT)
    address, leader, _ = leader_of(servers, "moved")
    local = wait_until_tiered(address, "moved")
    other = next(number for number in (1, 2, 3) if number != leader)
    move(servers, "moved", leader, other)
    move(servers, "moved", other)
    address, _, _ = leader_of(servers, "moved")
    assert offset_of(address, "moved", EARLIEST) == 0
    assert offset_of(address, "moved", EARLIEST_LOCAL) >= local
    fill(servers, "moved", COUNT, COUNT)
    until(lambda: offset_of(address, "moved", EARLIEST_LOCAL) > COUNT, "it is tiered on")
    assert read(servers, "moved", 0, 2 * COUNT) == [value(number) for number in range(2 * COUNT)]


def test_a_replica_that_was_away_for_long_is_rebuilt(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    make_topic(servers, "absent", 3, TIERED | {"min.insync.replicas": "1"})
    fill(servers, "absent", COUNT)
    address, leader, _ = leader_of(servers, "absent")
    wait_until_tiered(address, "absent")
    away = next(number for number in (1, 2, 3) if number not in {leader, cluster.controller})
    cluster.kill(away)
    fill(servers, "absent", 2 * COUNT, COUNT)
    until(lambda: offset_of(address, "absent", EARLIEST_LOCAL) > 2 * COUNT, "it is tiered on")
    cluster.restart(away)
    until(lambda: leader_of(servers, "absent")[2] == [1, 2, 3], "it is in sync again")
    move(servers, "absent", away)
    address, _, _ = leader_of(servers, "absent")
    assert offset_of(address, "absent", EARLIEST) == 0
    assert read(servers, "absent", 0, 3 * COUNT) == [value(number) for number in range(3 * COUNT)]
