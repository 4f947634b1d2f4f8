"""EndQuorumEpoch, key 54: the leader of the metadata quorum resigns, and says who should be next
(KIP-595).

Version 1 names the successors by their directories too, and where the leader listens (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.names import METADATA_TOPIC
from kaa.handlers.quorum_messages import (
    check_request,
    leader_address,
    leader_endpoints,
    leader_id_of,
    replica_key,
)
from kaa.quorum import messages
from kaa.quorum.voters import ReplicaKey
from kaa.wire.errors import Errors
from kaa.wire.messages.k54_end_quorum_epoch import (
    EndQuorumEpochResponse,
    NodeEndpoint,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k54_end_quorum_epoch import (
        EndQuorumEpochRequest,
        RequestPartitionData,
    )


async def handle(
    services: Services, request: EndQuorumEpochRequest, context: RequestContext
) -> EndQuorumEpochResponse:
    asked = [
        (topic.topic_name, [each.partition_index for each in topic.partitions])
        for topic in request.topics
    ]
    error = check_request(services, request.cluster_id, asked)
    if error is not Errors.NONE:
        return EndQuorumEpochResponse(error_code=error)
    partition = request.topics[0].partitions[0]
    answer = await services.quorum.serve(
        messages.EndQuorumEpochRequest(
            cluster_id=request.cluster_id,
            leader_id=partition.leader_id,
            leader_epoch=partition.leader_epoch,
            leader_endpoints=leader_endpoints(request.leader_endpoints),
            preferred_candidates=_successors(partition),
        )
    )
    if not isinstance(answer, messages.EndQuorumEpochResponse):
        assert isinstance(answer, messages.ErrorResponse)
        return EndQuorumEpochResponse(error_code=answer.error)
    told = ResponsePartitionData(
        partition_index=0,
        error_code=answer.error,
        leader_id=leader_id_of(answer),
        leader_epoch=answer.leader_epoch,
    )
    response = EndQuorumEpochResponse(
        topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[told])]
    )
    address = leader_address(answer, context.listener_name)
    if address is not None and context.api_version >= 1:
        response.node_endpoints = [
            NodeEndpoint(node_id=address.node_id, host=address.host, port=address.port)
        ]
    return response


def _successors(partition: RequestPartitionData) -> tuple[ReplicaKey, ...]:
    """Best log first; version 0 knows their ids alone."""
    return tuple(
        replica_key(each.candidate_id, each.candidate_directory_id)
        for each in partition.preferred_candidates
    ) or tuple(ReplicaKey(each) for each in partition.preferred_successors)
