"""AllocateProducerIds, key 67: a block of producer ids for a broker to hand out (KIP-730)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k67_allocate_producer_ids import (
        AllocateProducerIdsRequest,
        AllocateProducerIdsResponse,
    )


def handle(
    services: NodeServices, request: AllocateProducerIdsRequest, context: RequestContext
) -> Answer[AllocateProducerIdsResponse]:
    return Pending(forward(services, request, context))
