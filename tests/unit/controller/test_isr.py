from __future__ import annotations

from typing import Any

import pytest

from kaa.controller.result import ControllerError
from kaa.wire.errors import Errors
from kaa.wire.messages.k56_alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from tests.unit.controller.cluster import Cluster, uuid


def request(cluster: Cluster, isr: list[int], **changes: Any) -> AlterPartitionRequest:
    partition = cluster.image.topics["t"].partitions[0]
    leader = changes.pop("broker_id", 0)
    facts: dict[str, Any] = {
        "partition_index": 0,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "new_isr_with_epochs": [
            BrokerState(broker_id=each, broker_epoch=cluster.epochs.get(each, 0)) for each in isr
        ],
    }
    topic_id = changes.pop("topic_id", cluster.image.topics["t"].id)
    return AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=cluster.epochs[leader],
        topics=[
            RequestTopicData(
                topic_id=topic_id, partitions=[RequestPartitionData(**(facts | changes))]
            )
        ],
    )


def alter(cluster: Cluster, isr: list[int], **changes: Any) -> ResponsePartitionData:
    response = cluster.send(request(cluster, isr, **changes))
    assert response.error_code == 0
    answer: ResponsePartitionData = response.topics[0].partitions[0]
    return answer


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(3)
    made.create("t", replicas=[[0, 1, 2]])
    return made


def test_the_leader_changes_its_isr(cluster: Cluster) -> None:
    answer = alter(cluster, [0, 1])
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (0, [0, 1], 1)
    assert (answer.leader_id, answer.leader_epoch) == (0, 0)
    assert cluster.image.topics["t"].partitions[0].isr == (0, 1)


def test_the_same_isr_changes_nothing(cluster: Cluster) -> None:
    answer = alter(cluster, [0, 1, 2])
    assert (answer.error_code, answer.partition_epoch) == (0, 0)
    assert cluster.written == []


@pytest.mark.parametrize(
    ("isr", "changes", "error"),
    [
        ([0, 1], {"leader_epoch": 5}, Errors.NOT_CONTROLLER),
        ([0, 1], {"partition_epoch": 5}, Errors.NOT_CONTROLLER),
        ([0, 1], {"leader_epoch": -1}, Errors.FENCED_LEADER_EPOCH),
        ([0, 1], {"partition_epoch": -1}, Errors.INVALID_UPDATE_VERSION),
        ([1, 0], {"broker_id": 1}, Errors.INVALID_REQUEST),
        ([1], {}, Errors.INVALID_REQUEST),
        ([], {}, Errors.INVALID_REQUEST),
        ([0, 0], {}, Errors.INVALID_REQUEST),
        ([0, 7], {}, Errors.INVALID_REQUEST),
        ([0, 1], {"leader_recovery_state": 1}, Errors.INVALID_REQUEST),
        ([0], {"leader_recovery_state": 1}, Errors.INVALID_REQUEST),
        ([0], {"leader_recovery_state": 9}, Errors.INVALID_REQUEST),
        ([0, 1], {"partition_index": 3}, Errors.UNKNOWN_TOPIC_OR_PARTITION),
        ([0, 1], {"topic_id": uuid(5)}, Errors.UNKNOWN_TOPIC_ID),
    ],
)
def test_refusals(cluster: Cluster, isr: list[int], changes: dict[str, Any], error: Errors) -> None:
    assert alter(cluster, isr, **changes).error_code == error
    assert cluster.written == []


def test_replicas_that_are_not_alive_are_not_in_sync(cluster: Cluster) -> None:
    cluster.fence(1)
    assert alter(cluster, [0, 1]).error_code == Errors.INELIGIBLE_REPLICA
    wrong_epoch = request(cluster, [0, 2])
    wrong_epoch.topics[0].partitions[0].new_isr_with_epochs[1].broker_epoch += 1
    answer = cluster.send(wrong_epoch).topics[0].partitions[0]
    assert answer.error_code == Errors.INELIGIBLE_REPLICA
    wrong_epoch.topics[0].partitions[0].new_isr_with_epochs[1].broker_epoch = -1
    assert cluster.send(wrong_epoch).topics[0].partitions[0].error_code == Errors.NONE


def test_the_old_version_names_no_epochs(cluster: Cluster) -> None:
    old = request(cluster, [])
    old.topics[0].partitions[0].new_isr = [0, 2]
    assert cluster.send(old, 2).topics[0].partitions[0].isr == [0, 2]


def test_a_broker_with_a_stale_epoch_is_refused(cluster: Cluster) -> None:
    stale = request(cluster, [0])
    stale.broker_epoch += 1
    with pytest.raises(ControllerError) as refused:
        cluster.send(stale)
    assert refused.value.error is Errors.STALE_BROKER_EPOCH


def test_a_recovering_leader_says_when_it_has_recovered() -> None:
    cluster = Cluster(1)
    cluster.create("t")
    cluster.now_ms += 9_001
    cluster.register(0, incarnation_id=uuid(99))
    cluster.heartbeat(0)
    assert cluster.image.topics["t"].partitions[0].leader_recovery_state == 1
    answer = alter(cluster, [0], leader_recovery_state=0)
    assert (answer.error_code, answer.leader_recovery_state) == (0, 0)
    assert cluster.image.topics["t"].partitions[0].leader_recovery_state == 0
