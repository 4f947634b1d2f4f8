"""ElectLeaders, key 43: the preferred replica, or any that is alive, shall lead partitions
(KIP-183); the active controller decides.

Version 1 brought elections of replicas that are not in sync (KIP-460). A null list of partitions
stands for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import controller_context, out_of_time

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k43_elect_leaders import ElectLeadersRequest, ElectLeadersResponse


def handle(
    services: Services, request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse | Awaitable[ElectLeadersResponse]:
    refused: ElectLeadersResponse | None = out_of_time(request, request.timeout_ms, context)
    if refused is not None:
        return refused
    return services.controller.elect_leaders(request, controller_context(context))
