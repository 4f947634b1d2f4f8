"""AddRaftVoter, key 80: one more voter of the metadata quorum (KIP-853).

| version | |
|---|---|
| 1 | the answer need not wait for the commit, for a controller that adds itself |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward, is_controller_listener
from kaa.handlers.quorum_messages import leader_endpoints, replica_key
from kaa.quorum import messages
from kaa.wire.messages.k80_add_raft_voter import AddRaftVoterResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kaa.handlers.context import RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k80_add_raft_voter import AddRaftVoterRequest


def handle(
    services: NodeServices, request: AddRaftVoterRequest, context: RequestContext
) -> Awaitable[AddRaftVoterResponse]:
    if is_controller_listener(services, context) or services.metadata.active is not None:
        return _add(services, request)
    return forward(services, request, context)


async def _add(services: NodeServices, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    answer = await services.quorum.serve(
        messages.AddVoterRequest(
            request.cluster_id,
            replica_key(request.voter_id, request.voter_directory_id),
            leader_endpoints(request.listeners),
            request.timeout_ms,
            request.ack_when_committed,
        )
    )
    assert isinstance(answer, messages.VoterChangeResponse | messages.ErrorResponse)
    message = answer.message if isinstance(answer, messages.VoterChangeResponse) else None
    return AddRaftVoterResponse(error_code=answer.error, error_message=message)
