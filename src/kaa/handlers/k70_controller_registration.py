"""ControllerRegistration, key 70: a controller tells its addresses and the features it supports
(KIP-919).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k70_controller_registration import (
        ControllerRegistrationRequest,
        ControllerRegistrationResponse,
    )


def handle(
    services: NodeServices, request: ControllerRegistrationRequest, context: RequestContext
) -> Answer[ControllerRegistrationResponse]:
    return Pending(forward(services, request, context))
