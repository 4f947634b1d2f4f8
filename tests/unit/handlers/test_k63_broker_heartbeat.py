from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from tests.unit.handlers.support import NODE_ID, Node


@pytest.mark.parametrize("version", [0, 1, 2])
def test_alive(node: Node, version: int) -> None:
    request = BrokerHeartbeatRequest(
        broker_id=NODE_ID,
        broker_epoch=node.lifecycle.epoch,
        current_metadata_offset=node.services.image_offset,
    )
    response = node.ask(request, version, listener="CONTROLLER")
    assert (response.error_code, response.is_fenced) == (Errors.NONE, False)
    assert response.is_caught_up


def test_an_unknown_broker(node: Node) -> None:
    response = node.ask(BrokerHeartbeatRequest(broker_id=9, broker_epoch=1), listener="CONTROLLER")
    assert response.error_code == Errors.STALE_BROKER_EPOCH
