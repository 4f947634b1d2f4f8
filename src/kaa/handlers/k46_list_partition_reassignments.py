"""ListPartitionReassignments, key 46: partitions whose replicas are being changed (KIP-455).

A null list asks for all. Topics and partitions that do not exist, or do not move, are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k46_list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )


def handle(
    services: NodeServices, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> Answer[ListPartitionReassignmentsResponse]:
    return Pending(forward(services, request, context))
