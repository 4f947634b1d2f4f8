"""AssignReplicasToDirs, key 73: a broker tells in which of its log directories replicas are
(KIP-858).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k73_assign_replicas_to_dirs import (
        AssignReplicasToDirsRequest,
        AssignReplicasToDirsResponse,
    )


def handle(
    services: NodeServices, request: AssignReplicasToDirsRequest, context: RequestContext
) -> Answer[AssignReplicasToDirsResponse]:
    return Pending(forward(services, request, context))
