from __future__ import annotations

from kaa.wire.errors import Errors
from kaa.wire.messages.k64_unregister_broker import UnregisterBrokerRequest
from tests.unit.handlers.support import NODE_ID, Node


def test_a_broker_goes(node: Node) -> None:
    assert node.ask(UnregisterBrokerRequest(broker_id=NODE_ID)).error_code == Errors.NONE
    assert node.services.image.brokers == {}


def test_a_broker_that_does_not_exist(node: Node) -> None:
    response = node.ask(UnregisterBrokerRequest(broker_id=9))
    assert response.error_code == Errors.BROKER_ID_NOT_REGISTERED
