"""DeleteTopics, key 20: the active controller decides. The files of a deleted topic go after
`file.delete.delay.ms`.

| version | |
|---|---|
| 5 | errors in words; a quota of partition mutations may refuse (KIP-599) |
| 6 | topics by name or by id (KIP-516) |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kaa.handlers.context import RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse


def handle(
    services: NodeServices, request: DeleteTopicsRequest, context: RequestContext
) -> Awaitable[DeleteTopicsResponse]:
    return forward(services, request, context, timeout_ms=request.timeout_ms)
