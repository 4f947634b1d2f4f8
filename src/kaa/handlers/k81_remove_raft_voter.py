"""RemoveRaftVoter, key 81: one voter of the metadata quorum less (KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k81_remove_raft_voter import (
        RemoveRaftVoterRequest,
        RemoveRaftVoterResponse,
    )


def handle(
    services: NodeServices, request: RemoveRaftVoterRequest, context: RequestContext
) -> Answer[RemoveRaftVoterResponse]:
    return Pending(forward(services, request, context))
