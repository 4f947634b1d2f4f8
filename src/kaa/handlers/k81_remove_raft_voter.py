"""RemoveRaftVoter, key 81: one voter of the metadata quorum less (KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kaa.handlers.context import RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k81_remove_raft_voter import (
        RemoveRaftVoterRequest,
        RemoveRaftVoterResponse,
    )


def handle(
    services: NodeServices, request: RemoveRaftVoterRequest, context: RequestContext
) -> Awaitable[RemoveRaftVoterResponse]:
    return forward(services, request, context)
