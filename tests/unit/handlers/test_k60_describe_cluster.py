from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k03_metadata import MetadataRequest
from kaa.wire.messages.k60_describe_cluster import DescribeClusterBroker, DescribeClusterRequest
from kaa.wire.messages.metadata_cluster import (
    BrokerEndpoint,
    ControllerEndpoint,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from tests.unit.handlers.support import CLUSTER_ID, Node

BROKERS, CONTROLLERS = 1, 2
HERE = DescribeClusterBroker(broker_id=1, host="127.0.0.1", port=9092)


@pytest.fixture
def cluster(node: Node) -> Node:
    """One more broker, which is fenced, and a registered controller."""
    node.replay(
        RegisterBrokerRecord(
            broker_id=2,
            broker_epoch=5,
            end_points=[
                BrokerEndpoint(name="PLAINTEXT", host="two", port=9094, security_protocol=0)
            ],
            rack="r2",
            fenced=True,
        ),
        RegisterControllerRecord(
            controller_id=1,
            end_points=[
                ControllerEndpoint(name="CONTROLLER", host="one", port=9093, security_protocol=0)
            ],
        ),
    )
    return node


@pytest.mark.parametrize("version", [0, 1, 2])
def test_brokers(cluster: Node, version: int) -> None:
    response = cluster.ask(DescribeClusterRequest(), version)
    assert (response.error_code, response.error_message) == (Errors.NONE, None)
    assert (response.endpoint_type, response.cluster_id) == (BROKERS, CLUSTER_ID)
    assert response.controller_id == 1
    assert response.brokers == [HERE]
    assert response.cluster_authorized_operations == -2147483648


def test_fenced_brokers_and_operations_on_demand(cluster: Node) -> None:
    request = DescribeClusterRequest(
        include_fenced_brokers=True, include_cluster_authorized_operations=True
    )
    response = cluster.ask(request)
    fenced = DescribeClusterBroker(broker_id=2, host="two", port=9094, rack="r2", is_fenced=True)
    assert response.brokers == [HERE, fenced]
    assert response.cluster_authorized_operations == 8096


def test_the_broker_that_answers_is_named_as_controller(node: Node) -> None:
    """Another that the image holds for alive may have died a moment ago."""
    end_points = [BrokerEndpoint(name="PLAINTEXT", host="zero", port=9090, security_protocol=0)]
    node.replay(
        RegisterBrokerRecord(broker_id=0, broker_epoch=5, end_points=end_points, fenced=False)
    )
    described = node.ask(DescribeClusterRequest())
    assert {broker.broker_id for broker in described.brokers} == {0, 1}
    assert described.controller_id == 1
    assert node.ask(MetadataRequest(topics=[])).controller_id == 1


def test_controllers(cluster: Node) -> None:
    response = cluster.ask(DescribeClusterRequest(endpoint_type=CONTROLLERS), listener="CONTROLLER")
    assert response.endpoint_type == CONTROLLERS
    assert response.controller_id == 1
    assert response.brokers == [DescribeClusterBroker(broker_id=1, host="one", port=9093)]


@pytest.mark.parametrize(
    ("listener", "wanted", "version", "error"),
    [
        ("PLAINTEXT", CONTROLLERS, 1, Errors.MISMATCHED_ENDPOINT_TYPE),
        ("CONTROLLER", BROKERS, 2, Errors.MISMATCHED_ENDPOINT_TYPE),
        ("CONTROLLER", BROKERS, 0, Errors.INVALID_REQUEST),
        ("PLAINTEXT", 9, 1, Errors.UNSUPPORTED_ENDPOINT_TYPE),
        ("CONTROLLER", 0, 2, Errors.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_the_other_kind(
    cluster: Node, listener: str, wanted: int, version: int, error: Errors
) -> None:
    request = DescribeClusterRequest(endpoint_type=wanted)
    response = cluster.ask(request, version, listener=listener)
    assert response.error_code == error
    assert response.error_message
    assert (response.cluster_id, response.brokers) == ("", [])
