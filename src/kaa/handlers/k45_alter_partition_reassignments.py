"""AlterPartitionReassignments, key 45: other replicas for partitions, or the end of a change
that is under way (KIP-455); the active controller decides.

Version 1 lets a client forbid that the number of replicas changes (KIP-860).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k45_alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )


def handle(
    services: NodeServices, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> Answer[AlterPartitionReassignmentsResponse]:
    return Pending(forward(services, request, context, timeout_ms=request.timeout_ms))
