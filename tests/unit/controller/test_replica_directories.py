from __future__ import annotations

import pytest

from kaa.controller.directories import UNASSIGNED
from kaa.controller.result import ControllerError
from kaa.wire.errors import Errors
from kaa.wire.messages.k73_assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from kaa.wire.primitives import Uuid
from tests.unit.controller.cluster import Cluster, directory, uuid


def request(
    cluster: Cluster, broker_id: int, chosen: Uuid, topic_id: Uuid, *numbers: int
) -> AssignReplicasToDirsRequest:
    return AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=cluster.epochs[broker_id],
        directories=[
            RequestDirectoryData(
                id=chosen,
                topics=[
                    RequestTopicData(
                        topic_id=topic_id,
                        partitions=[RequestPartitionData(partition_index=each) for each in numbers],
                    )
                ],
            )
        ],
    )


def errors(response: AssignReplicasToDirsResponse) -> list[int]:
    return [
        partition.error_code
        for each in response.directories
        for topic in each.topics
        for partition in topic.partitions
    ]


def test_a_broker_tells_where_its_replicas_are() -> None:
    cluster = Cluster(3, directories=2)
    cluster.create("t", replicas=[[0, 1], [1, 2]])
    topic = cluster.image.topics["t"]
    assert topic.partitions[0].directories == (UNASSIGNED, UNASSIGNED)
    response = cluster.send(request(cluster, 0, directory(0, 1), topic.id, 0, 1, 9))
    assert errors(response) == [
        Errors.NONE,
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert topic.partitions[0].directories == (directory(0, 1), UNASSIGNED)
    assert errors(cluster.send(request(cluster, 0, directory(0), uuid(1), 0))) == [
        Errors.UNKNOWN_TOPIC_ID
    ]


def test_a_replica_in_an_offline_directory_loses_its_leadership() -> None:
    cluster = Cluster(2, directories=2)
    cluster.create("t", replicas=[[0, 1]])
    cluster.heartbeat(0, offline_log_dirs=[directory(0, 1)])
    topic = cluster.image.topics["t"]
    assert errors(cluster.send(request(cluster, 0, directory(0, 1), topic.id, 0))) == [0]
    assert (topic.partitions[0].leader, topic.partitions[0].isr) == (1, (1,))


def test_a_replica_that_is_found_in_another_directory_leads_what_nobody_led() -> None:
    cluster = Cluster(1, directories=2)
    cluster.create("t", replicas=[[0]])
    topic = cluster.image.topics["t"]
    cluster.send(request(cluster, 0, directory(0, 1), topic.id, 0))
    cluster.heartbeat(0, offline_log_dirs=[directory(0, 1)])
    assert topic.partitions[0].leader == -1
    cluster.send(request(cluster, 0, directory(0), topic.id, 0))
    assert (topic.partitions[0].leader, topic.partitions[0].isr) == (0, (0,))


def test_refusals() -> None:
    cluster = Cluster(1)
    cluster.create("t")
    wanted = request(cluster, 0, directory(0), cluster.image.topics["t"].id, 0)
    wanted.broker_epoch += 1
    with pytest.raises(ControllerError) as refused:
        cluster.send(wanted)
    assert refused.value.error is Errors.STALE_BROKER_EPOCH
    old = Cluster(1, metadata_version=16)
    with pytest.raises(ControllerError) as refused:
        old.send(request(old, 0, directory(0), uuid(1), 0))
    assert refused.value.error is Errors.UNSUPPORTED_VERSION
