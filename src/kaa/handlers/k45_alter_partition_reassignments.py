"""AlterPartitionReassignments, key 45: other replicas for partitions, or the end of a change
that is under way (KIP-455); the active controller decides.

Version 1 lets a client forbid that the number of replicas changes (KIP-860).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import controller_context, out_of_time

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k45_alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )


def handle(
    services: Services, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse | Awaitable[AlterPartitionReassignmentsResponse]:
    refused: AlterPartitionReassignmentsResponse | None = out_of_time(
        request, request.timeout_ms, context
    )
    if refused is not None:
        return refused
    return services.controller.alter_partition_reassignments(request, controller_context(context))
