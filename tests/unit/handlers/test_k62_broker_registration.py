from __future__ import annotations

import pytest

from kaa.controller.feature_table import supported_ranges
from kaa.wire.errors import Errors
from kaa.wire.messages.k62_broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kaa.wire.primitives import Uuid
from tests.unit.handlers.support import CLUSTER_ID, Node


def request(cluster_id: str = CLUSTER_ID) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=7,
        cluster_id=cluster_id,
        incarnation_id=Uuid(b"incarnation-id-7"),
        listeners=[Listener(name="PLAINTEXT", host="seven", port=9092, security_protocol=0)],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in supported_ranges().items()
        ],
        rack=None,
        log_dirs=[Uuid(b"log-dir-of-seven")],
    )


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_broker_gets_an_epoch_and_is_fenced(node: Node, version: int) -> None:
    response = node.ask(request(), version, listener="CONTROLLER")
    assert response.error_code == Errors.NONE
    assert node.services.image.brokers[7].epoch == response.broker_epoch > 0
    assert node.services.image.brokers[7].is_fenced


def test_a_broker_of_another_cluster(node: Node) -> None:
    response = node.ask(request("some-other-cluster"), listener="CONTROLLER")
    assert response.error_code == Errors.INCONSISTENT_CLUSTER_ID
