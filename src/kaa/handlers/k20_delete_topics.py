"""DeleteTopics, key 20: the active controller decides. The files of a deleted topic go after
`file.delete.delay.ms`.

| version | |
|---|---|
| 5 | errors in words; a quota of partition mutations may refuse (KIP-599) |
| 6 | topics by name or by id (KIP-516) |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import controller_context, out_of_time

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse


def handle(
    services: Services, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse | Awaitable[DeleteTopicsResponse]:
    refused: DeleteTopicsResponse | None = out_of_time(request, request.timeout_ms, context)
    if refused is not None:
        return refused
    return services.controller.delete_topics(request, controller_context(context))
