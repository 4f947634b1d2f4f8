"""RemoveRaftVoter, key 81: one voter of the metadata quorum less (KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward, is_controller_listener
from kaa.handlers.quorum_messages import replica_key
from kaa.quorum import messages
from kaa.wire.messages.k81_remove_raft_voter import RemoveRaftVoterResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kaa.handlers.context import RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k81_remove_raft_voter import RemoveRaftVoterRequest


def handle(
    services: NodeServices, request: RemoveRaftVoterRequest, context: RequestContext
) -> Awaitable[RemoveRaftVoterResponse]:
    if is_controller_listener(services, context) or services.metadata.active is not None:
        return _remove(services, request)
    return forward(services, request, context)


async def _remove(
    services: NodeServices, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    answer = await services.quorum.serve(
        messages.RemoveVoterRequest(
            request.cluster_id, replica_key(request.voter_id, request.voter_directory_id)
        )
    )
    assert isinstance(answer, messages.VoterChangeResponse | messages.ErrorResponse)
    message = answer.message if isinstance(answer, messages.VoterChangeResponse) else None
    return RemoveRaftVoterResponse(error_code=answer.error, error_message=message)
