"""CreateTopics, key 19: the active controller decides, and answers when the topics are committed.

| version | what is new |
|---|---|
| 4 | -1 for the defaults of the cluster (KIP-464) |
| 5 | the settings of the new topics in the answer (KIP-525) |
| 6 | a quota of partition mutations may refuse (KIP-599) |
| 7 | topic ids (KIP-516) |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k19_create_topics import CreateTopicsRequest, CreateTopicsResponse


def handle(
    services: NodeServices, request: CreateTopicsRequest, context: RequestContext
) -> Answer[CreateTopicsResponse]:
    return Pending(forward(services, request, context, timeout_ms=request.timeout_ms))
