"""BeginQuorumEpoch, key 53: a controller tells that it leads the metadata quorum (KIP-595).

Version 1 names the voter that is meant and where the leader listens (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.handlers.quorum_messages import (
    EpochMessages,
    serve_epoch_request,
    voter_key,
)
from kaa.quorum import messages
from kaa.quorum.voters import named_endpoints
from kaa.wire.messages.k53_begin_quorum_epoch import (
    BeginQuorumEpochResponse,
    NodeEndpoint,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k53_begin_quorum_epoch import BeginQuorumEpochRequest


_TYPES: Final = EpochMessages(
    BeginQuorumEpochResponse, ResponseTopicData, ResponsePartitionData, NodeEndpoint
)


def handle(
    services: NodeServices, request: BeginQuorumEpochRequest, context: RequestContext
) -> Answer[BeginQuorumEpochResponse]:
    return serve_epoch_request(services, request, lambda: _question(request), _TYPES, context)


def _question(request: BeginQuorumEpochRequest) -> messages.BeginQuorumEpochRequest:
    partition = request.topics[0].partitions[0]
    return messages.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter=voter_key(request.voter_id, partition.voter_directory_id),
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        leader_endpoints=named_endpoints(request.leader_endpoints),
    )
