from __future__ import annotations

from kaa.controller.feature_table import supported_ranges
from kaa.wire.errors import Errors
from kaa.wire.messages.k70_controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from kaa.wire.primitives import Uuid
from tests.unit.handlers.support import NODE_ID, Node


def test_a_controller_tells_its_address(node: Node) -> None:
    request = ControllerRegistrationRequest(
        controller_id=NODE_ID,
        incarnation_id=Uuid(b"controller-id-11"),
        listeners=[Listener(name="CONTROLLER", host="one", port=9093, security_protocol=0)],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in supported_ranges().items()
        ],
    )
    assert node.ask(request, listener="CONTROLLER").error_code == Errors.NONE
    (endpoint,) = node.services.image.controllers[NODE_ID].endpoints
    assert (endpoint.host, endpoint.port) == ("one", 9093)
