"""AlterClientQuotas, key 49: sets and removes quotas of users, clients and addresses (KIP-546);
the active controller decides, entity by entity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k49_alter_client_quotas import (
        AlterClientQuotasRequest,
        AlterClientQuotasResponse,
    )


def handle(
    services: NodeServices, request: AlterClientQuotasRequest, context: RequestContext
) -> Answer[AlterClientQuotasResponse]:
    return Pending(forward(services, request, context))
