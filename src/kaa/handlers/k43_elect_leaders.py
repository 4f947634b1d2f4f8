"""ElectLeaders, key 43: the preferred replica, or any that is alive, is to lead partitions
(KIP-183); the active controller decides.

Version 1 brought elections of replicas that are not in sync (KIP-460). A null list of partitions
stands for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k43_elect_leaders import ElectLeadersRequest, ElectLeadersResponse


def handle(
    services: NodeServices, request: ElectLeadersRequest, context: RequestContext
) -> Answer[ElectLeadersResponse]:
    return Pending(forward(services, request, context, timeout_ms=request.timeout_ms))
