"""CreatePartitions, key 37: more partitions for topics that exist (KIP-195); the active
controller decides.

Version 3 on, a quota of partition mutations may refuse (KIP-599).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k37_create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
    )


def handle(
    services: NodeServices, request: CreatePartitionsRequest, context: RequestContext
) -> Answer[CreatePartitionsResponse]:
    return Pending(forward(services, request, context, timeout_ms=request.timeout_ms))
