"""CreatePartitions, key 37: more partitions for topics that exist (KIP-195); the active
controller decides.

Version 3 on, a quota of partition mutations may refuse (KIP-599).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import controller_context, out_of_time

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k37_create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
    )


def handle(
    services: Services, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse | Awaitable[CreatePartitionsResponse]:
    refused: CreatePartitionsResponse | None = out_of_time(request, request.timeout_ms, context)
    if refused is not None:
        return refused
    return services.controller.create_partitions(request, controller_context(context))
