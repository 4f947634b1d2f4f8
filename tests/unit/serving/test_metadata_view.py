from __future__ import annotations

import pytest

from kaa.controller.image import ClusterImage, PartitionImage
from kaa.serving.metadata_view import offline_replicas, reachable_brokers, visible_leader
from kaa.wire.messages.metadata_cluster import BrokerEndpoint, RegisterBrokerRecord
from kaa.wire.primitives import Uuid

DISK = Uuid(b"id-of-a-log-dir-")
LOST_DISK = Uuid(b"id-of-other-dir-")


@pytest.fixture
def image() -> ClusterImage:
    """Broker 1 has both listeners, 2 only the inner one, 3 is fenced."""
    image = ClusterImage()
    for broker_id, listeners, fenced in (
        (1, ("OUTER", "INNER"), False),
        (2, ("INNER",), False),
        (3, ("OUTER", "INNER"), True),
    ):
        image.replay(
            RegisterBrokerRecord(
                broker_id=broker_id,
                end_points=[
                    BrokerEndpoint(name=name, host=f"{name}-{broker_id}", security_protocol=0)
                    for name in listeners
                ],
                fenced=fenced,
                log_dirs=[DISK],
            )
        )
    return image


def partition(leader: int, *replicas: int, directories: tuple[Uuid, ...] = ()) -> PartitionImage:
    return PartitionImage(replicas, replicas, leader, 0, 0, directories=directories)


def test_reachable_brokers(image: ClusterImage) -> None:
    outer = [(broker.id, point.host) for broker, point in reachable_brokers(image, "OUTER")]
    assert outer == [(1, "OUTER-1")]
    fenced = [broker.id for broker, _ in reachable_brokers(image, "INNER", fenced=True)]
    assert fenced == [1, 2, 3]
    assert list(reachable_brokers(image, "NONE")) == []


def test_visible_leader(image: ClusterImage) -> None:
    assert visible_leader(image, partition(1, 1), "OUTER") == 1
    assert visible_leader(image, partition(2, 2), "OUTER") == -1
    assert visible_leader(image, partition(2, 2), "INNER") == 2
    assert visible_leader(image, partition(9, 9), "INNER") == -1
    assert visible_leader(image, partition(-1, 1), "INNER") == -1


def test_offline_replicas(image: ClusterImage) -> None:
    assert offline_replicas(image, partition(1, 1, 2, 3, 9), "OUTER") == [2, 3, 9]
    assert offline_replicas(image, partition(1, 1, 2, 3, 9), "INNER") == [3, 9]
    with_directories = partition(1, 1, 2, directories=(LOST_DISK, DISK))
    assert offline_replicas(image, with_directories, "INNER") == [1]
