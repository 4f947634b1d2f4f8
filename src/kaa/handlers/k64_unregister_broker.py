"""UnregisterBroker, key 64: takes a broker that will not come back out of the cluster (KIP-631);
the active controller decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k64_unregister_broker import (
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
    )


def handle(
    services: NodeServices, request: UnregisterBrokerRequest, context: RequestContext
) -> Answer[UnregisterBrokerResponse]:
    return Pending(forward(services, request, context))
