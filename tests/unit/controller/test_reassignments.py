from __future__ import annotations

from kaa.controller.image import ClusterImage
from kaa.controller.reassignments import list_partition_reassignments
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kaa.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from tests.unit.controller.cluster import Cluster
from tests.unit.controller.test_isr import alter as alter_isr


def listed(
    image: ClusterImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return finish(list_partition_reassignments(image, request))


def reassign(
    cluster: Cluster, name: str, number: int, replicas: list[int] | None, *, factor: bool = True
) -> Errors:
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=factor,
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=number, replicas=replicas)],
            )
        ],
    )
    response = cluster.send(request)
    return Errors.of(response.responses[0].partitions[0].error_code)


def made() -> Cluster:
    cluster = Cluster(4)
    cluster.create("t", replicas=[[0, 1]])
    return cluster


def test_a_reassignment_is_complete_when_the_new_replicas_are_in_sync() -> None:
    cluster = made()
    assert reassign(cluster, "t", 0, [2, 3]) is Errors.NONE
    partition = cluster.image.topics["t"].partitions[0]
    assert partition.replicas == (2, 3, 0, 1)
    assert (partition.adding_replicas, partition.removing_replicas) == ((2, 3), (0, 1))
    assert (partition.leader, partition.isr) == (0, (0, 1))
    assert alter_isr(cluster, [0, 1, 2]).error_code == Errors.NONE
    answer = alter_isr(cluster, [0, 1, 2, 3])
    assert answer.error_code == Errors.NEW_LEADER_ELECTED
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 3), (2, 3), 2)
    assert (partition.adding_replicas, partition.removing_replicas) == ((), ())
    assert len(partition.directories) == 2


def test_a_reassignment_that_only_reorders_is_complete_at_once() -> None:
    cluster = made()
    assert reassign(cluster, "t", 0, [1, 0]) is Errors.NONE
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.leader) == ((1, 0), 0)


def test_a_reassignment_can_be_cancelled() -> None:
    cluster = made()
    assert reassign(cluster, "t", 0, None) is Errors.NO_REASSIGNMENT_IN_PROGRESS
    reassign(cluster, "t", 0, [2, 3])
    alter_isr(cluster, [0, 1, 2])
    assert reassign(cluster, "t", 0, None) is Errors.NONE
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.isr) == ((0, 1), (0, 1))
    assert (partition.adding_replicas, partition.removing_replicas) == ((), ())


def test_cancelling_needs_an_old_replica_in_sync() -> None:
    cluster = made()
    reassign(cluster, "t", 0, [2, 3])
    partitions = cluster.image.topics["t"].partitions
    partitions[0] = partitions[0]._replace(isr=(2,), leader=2)
    finish(cluster.state.partitions.build(cluster.image))
    assert reassign(cluster, "t", 0, None) is Errors.INVALID_REPLICA_ASSIGNMENT
    cluster.image.configs[2, "t"] = {"unclean.leader.election.enable": "true"}
    assert reassign(cluster, "t", 0, None) is Errors.NONE
    assert partitions[0].isr == (0,)


def test_refusals() -> None:
    cluster = made()
    assert reassign(cluster, "nosuch", 0, [1]) is Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert reassign(cluster, "t", 5, [1]) is Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert reassign(cluster, "t", 0, []) is Errors.INVALID_REPLICA_ASSIGNMENT
    assert reassign(cluster, "t", 0, [1, 1]) is Errors.INVALID_REPLICA_ASSIGNMENT
    assert reassign(cluster, "t", 0, [1, 9]) is Errors.INVALID_REPLICA_ASSIGNMENT
    assert reassign(cluster, "t", 0, [2], factor=False) is Errors.INVALID_REPLICATION_FACTOR
    assert reassign(cluster, "t", 0, [2, 3], factor=False) is Errors.NONE
    assert reassign(cluster, "t", 0, [1, 2, 3], factor=False) is Errors.INVALID_REPLICATION_FACTOR


def test_one_broker_cannot_take_what_needs_several() -> None:
    cluster = Cluster(1)
    cluster.create("t")
    assert reassign(cluster, "t", 0, [0, 1]) is Errors.INVALID_REPLICA_ASSIGNMENT
    assert reassign(cluster, "t", 0, [0]) is Errors.NONE
    assert cluster.written == []


def test_what_is_under_way_is_listed() -> None:
    cluster = made()
    cluster.create("u", replicas=[[0, 1]])
    reassign(cluster, "t", 0, [2, 3])
    everything = listed(cluster.image, ListPartitionReassignmentsRequest(topics=None))
    (topic,) = everything.topics
    (partition,) = topic.partitions
    assert (topic.name, partition.partition_index) == ("t", 0)
    assert (partition.adding_replicas, partition.removing_replicas) == ([2, 3], [0, 1])
    wanted = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 7])
        for name in ("u", "t", "nosuch")
    ]
    some = listed(cluster.image, ListPartitionReassignmentsRequest(topics=wanted))
    assert [each.name for each in some.topics] == ["t"]
