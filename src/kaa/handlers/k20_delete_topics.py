"""DeleteTopics, key 20: the active controller decides. The files of a deleted topic go after
`file.delete.delay.ms`.

| version | what is new |
|---|---|
| 5 | errors in words; a quota of partition mutations may refuse (KIP-599) |
| 6 | topics by name or by id (KIP-516) |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse


def handle(
    services: NodeServices, request: DeleteTopicsRequest, context: RequestContext
) -> Answer[DeleteTopicsResponse]:
    return Pending(forward(services, request, context, timeout_ms=request.timeout_ms))
