from __future__ import annotations

import pytest

from kaa.controller import partitions
from kaa.controller.image import PartitionImage
from kaa.controller.result import ControllerError
from kaa.controller.state import ControllerState
from kaa.controller.topics import placed_partitions
from kaa.model.pieces import Pieces
from kaa.wire.errors import Errors
from kaa.wire.messages.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.unit.controller.cluster import Cluster


def wanted(
    name: str, count: int, assignments: list[list[int]] | None = None
) -> CreatePartitionsTopic:
    return CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=each) for each in assignments],
    )


def add(
    cluster: Cluster, *topics: CreatePartitionsTopic, validate_only: bool = False
) -> list[Errors]:
    request = CreatePartitionsRequest(topics=list(topics), validate_only=validate_only)
    return [Errors.of(each.error_code) for each in cluster.send(request).results]


def made() -> Cluster:
    cluster = Cluster(3)
    cluster.create("t", partitions=2, factor=2)
    return cluster


def test_partitions_are_added_with_the_replication_factor_of_the_topic() -> None:
    cluster = made()
    assert add(cluster, wanted("t", 5)) == [Errors.NONE]
    partitions = cluster.image.topics["t"].partitions
    assert sorted(partitions) == [0, 1, 2, 3, 4]
    assert {len(each.replicas) for each in partitions.values()} == {2}


def test_partitions_can_be_assigned() -> None:
    cluster = made()
    assert add(cluster, wanted("t", 3, [[2, 1]])) == [Errors.NONE]
    assert cluster.image.topics["t"].partitions[2].replicas == (2, 1)


def test_validate_only() -> None:
    cluster = made()
    assert add(cluster, wanted("t", 3), validate_only=True) == [Errors.NONE]
    assert len(cluster.image.topics["t"].partitions) == 2


def test_refusals() -> None:
    cluster = made()
    assert add(
        cluster,
        wanted("nosuch", 3),
        wanted("t", 3),
        wanted("t", 4),
    ) == [Errors.INVALID_REQUEST, Errors.UNKNOWN_TOPIC_OR_PARTITION]
    for topic, error in [
        (wanted("t", 2), Errors.INVALID_PARTITIONS),
        (wanted("t", 1), Errors.INVALID_PARTITIONS),
        (wanted("t", 4, [[0, 1]]), Errors.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 3, [[0]]), Errors.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 3, [[0, 9]]), Errors.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 20_000), Errors.POLICY_VIOLATION),
    ]:
        assert add(cluster, topic) == [error]
    cluster.fence(0, 1)
    assert add(cluster, wanted("t", 3, [[0, 1]])) == [Errors.INVALID_REPLICA_ASSIGNMENT]
    cluster.fence(2)
    assert add(cluster, wanted("t", 3)) == [Errors.INVALID_REPLICATION_FACTOR]
    assert len(cluster.image.topics["t"].partitions) == 2


def test_partition_mutations_are_charged() -> None:
    def refuse(count: int) -> None:
        assert count == 3
        raise ControllerError(Errors.THROTTLING_QUOTA_EXCEEDED)

    cluster = made()
    request = CreatePartitionsRequest(topics=[wanted("t", 5)])
    response = cluster.send(request, charge_partition_mutations=refuse)
    assert response.results[0].error_code == Errors.THROTTLING_QUOTA_EXCEEDED


def test_too_many_are_refused_before_they_are_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = made()
    cluster.create("other", partitions=2, factor=2)
    placed = []

    def placing(state: ControllerState, count: int, factor: int) -> Pieces[list[PartitionImage]]:
        placed.append(count)
        return (yield from placed_partitions(state, count, factor))

    monkeypatch.setattr(partitions, "placed_partitions", placing)
    for validate_only in (False, True):
        many = wanted("t", 2**31 - 1)
        assert add(cluster, many, validate_only=validate_only) == [Errors.POLICY_VIOLATION]
    assert not placed
    topics = (wanted("t", 102), wanted("other", 9_903))
    assert add(cluster, *topics) == [Errors.NONE, Errors.POLICY_VIOLATION]
    assert placed == [100]
