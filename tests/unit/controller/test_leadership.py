from __future__ import annotations

from kaa.controller.leadership import (
    move_leaderships,
    move_leaderships_of_directory,
    take_leaderships,
)
from kaa.model.pieces import finish
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from tests.unit.controller.cluster import Cluster, directory


def changes(records: list[object]) -> dict[int, tuple[int, list[int] | None]]:
    """Leader and ISR of each record, by partition."""
    found = {}
    for record in records:
        assert isinstance(record, PartitionChangeRecord)
        found[record.partition_id] = (record.leader, record.isr)
    return found


def made() -> Cluster:
    cluster = Cluster(3)
    cluster.create("t", replicas=[[0, 1], [1, 0], [1, 2]])
    return cluster


def test_only_partitions_of_the_broker_change() -> None:
    records: list[object] = list(finish(move_leaderships(made().state, 0)))
    assert changes(records) == {0: (1, [1]), 1: (-2, [1])}


def test_only_partitions_in_the_directory_change() -> None:
    cluster = made()
    assert finish(move_leaderships_of_directory(cluster.state, 0, directory(1))) == []
    records: list[object] = list(
        finish(move_leaderships_of_directory(cluster.state, 0, directory(0)))
    )
    assert sorted(changes(records)) == [0, 1]
    # A replica that is not in sync has nothing to lose.
    cluster.fence(0)
    assert finish(move_leaderships_of_directory(cluster.state, 0, directory(0))) == []


def test_unregistering_also_ends_eligibility() -> None:
    cluster = Cluster(2)
    cluster.create("t", replicas=[[0, 1]], configs={"min.insync.replicas": "2"})
    cluster.fence(0)
    assert cluster.image.topics["t"].partitions[0].eligible_leader_replicas == (0,)
    assert finish(move_leaderships(cluster.state, 0)) == []
    (record,) = finish(move_leaderships(cluster.state, 0, was_unclean=True))
    assert isinstance(record, PartitionChangeRecord)
    assert record.eligible_leader_replicas == []


def test_a_broker_takes_what_nobody_leads() -> None:
    cluster = made()
    cluster.fence(0, 1, 2)
    assert {each.leader for each in cluster.image.topics["t"].partitions.values()} == {-1}
    records: list[object] = list(finish(take_leaderships(cluster.state, 1)))
    assert {leader for leader, _ in changes(records).values()} == {1}
