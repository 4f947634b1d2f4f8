"""UpdateRaftVoter, key 82: a voter tells the leader where it listens and what it supports
(KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.quorum_messages import (
    leader_address,
    leader_id_of,
)
from kaa.model.nodes import VersionRange
from kaa.net.pending import Pending
from kaa.quorum import messages
from kaa.quorum.voters import VoterNode, named_endpoints, replica_key
from kaa.wire.messages.k82_update_raft_voter import CurrentLeader, UpdateRaftVoterResponse

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k82_update_raft_voter import UpdateRaftVoterRequest


def handle(
    services: NodeServices, request: UpdateRaftVoterRequest, context: RequestContext
) -> Answer[UpdateRaftVoterResponse]:
    return Pending(_update(services, request, context))


async def _update(
    services: NodeServices, request: UpdateRaftVoterRequest, context: RequestContext
) -> UpdateRaftVoterResponse:
    feature = request.kraft_version_feature
    voter = VoterNode(
        replica_key(request.voter_id, request.voter_directory_id),
        named_endpoints(request.listeners),
        VersionRange(feature.min_supported_version, feature.max_supported_version),
    )
    answer = await services.quorum.serve(
        messages.UpdateVoterRequest(request.cluster_id, request.current_leader_epoch, voter)
    )
    if not isinstance(answer, messages.UpdateVoterResponse):
        assert isinstance(answer, messages.ErrorResponse)
        return UpdateRaftVoterResponse(error_code=answer.error)
    leader = CurrentLeader(leader_id=leader_id_of(answer), leader_epoch=answer.leader_epoch)
    address = leader_address(answer, context.listener_name)
    if address is not None:
        leader.host, leader.port = address.host, address.port
    return UpdateRaftVoterResponse(error_code=answer.error, current_leader=leader)
