from __future__ import annotations

import pytest

from kaa.controller.result import ControllerError
from kaa.wire.errors import Errors
from kaa.wire.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest
from kaa.wire.messages.metadata_cluster import ProducerIdsRecord
from tests.unit.controller.cluster import Cluster


def test_blocks_follow_each_other() -> None:
    cluster = Cluster(2)
    starts = []
    for broker_id in (0, 1, 0):
        response = cluster.send(
            AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=cluster.epochs[broker_id])
        )
        assert response.producer_id_len == 1000
        starts.append(response.producer_id_start)
    assert starts == [0, 1000, 2000]
    assert cluster.image.next_producer_id == 3000


def test_a_stale_broker_gets_none() -> None:
    cluster = Cluster(1)
    with pytest.raises(ControllerError) as refused:
        cluster.send(AllocateProducerIdsRequest(broker_id=0, broker_epoch=0))
    assert refused.value.error is Errors.STALE_BROKER_EPOCH


def test_ids_end_some_day() -> None:
    cluster = Cluster(1)
    cluster.image.replay(ProducerIdsRecord(broker_id=0, next_producer_id=2**63 - 1000))
    request = AllocateProducerIdsRequest(broker_id=0, broker_epoch=cluster.epochs[0])
    with pytest.raises(ControllerError) as refused:
        cluster.send(request)
    assert refused.value.error is Errors.UNKNOWN_SERVER_ERROR
    cluster = Cluster(1)
    cluster.image.replay(ProducerIdsRecord(broker_id=0, next_producer_id=2**63 - 1001))
    assert cluster.send(request).producer_id_start == 2**63 - 1001
