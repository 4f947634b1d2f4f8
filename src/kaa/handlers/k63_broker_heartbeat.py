"""BrokerHeartbeat, key 63: a broker is alive, wants to serve, or wants to leave (KIP-631).

Version 1 names log directories that failed (KIP-858), version 2 those that take no new partitions
(KIP-1066).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k63_broker_heartbeat import (
        BrokerHeartbeatRequest,
        BrokerHeartbeatResponse,
    )


def handle(
    services: NodeServices, request: BrokerHeartbeatRequest, context: RequestContext
) -> Answer[BrokerHeartbeatResponse]:
    return Pending(forward(services, request, context))
