"""EndQuorumEpoch, key 54: the leader of the metadata quorum resigns, and says who should be next
(KIP-595).

Version 1 names the successors by their directories too, and where the leader listens (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.handlers.quorum_messages import (
    EpochMessages,
    serve_epoch_request,
)
from kaa.limits import QUORUM_VOTERS_MAX
from kaa.quorum import messages
from kaa.quorum.voters import ReplicaKey, named_endpoints, replica_key
from kaa.wire.messages.k54_end_quorum_epoch import (
    EndQuorumEpochResponse,
    NodeEndpoint,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k54_end_quorum_epoch import (
        EndQuorumEpochRequest,
        RequestPartitionData,
    )


_TYPES: Final = EpochMessages(
    EndQuorumEpochResponse, ResponseTopicData, ResponsePartitionData, NodeEndpoint
)


def handle(
    services: NodeServices, request: EndQuorumEpochRequest, context: RequestContext
) -> Answer[EndQuorumEpochResponse]:
    return serve_epoch_request(services, request, lambda: _question(request), _TYPES, context)


def _question(request: EndQuorumEpochRequest) -> messages.EndQuorumEpochRequest:
    partition = request.topics[0].partitions[0]
    return messages.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        leader_endpoints=named_endpoints(request.leader_endpoints),
        preferred_candidates=_successors(partition),
    )


def _successors(partition: RequestPartitionData) -> tuple[ReplicaKey, ...]:
    """Best log first; version 0 knows their ids alone. There are no more than voters."""
    return tuple(
        replica_key(each.candidate_id, each.candidate_directory_id)
        for each in partition.preferred_candidates[:QUORUM_VOTERS_MAX]
    ) or tuple(ReplicaKey(each) for each in partition.preferred_successors[:QUORUM_VOTERS_MAX])
