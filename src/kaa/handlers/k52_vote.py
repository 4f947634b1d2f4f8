"""Vote, key 52: a controller asks for a vote to lead the metadata quorum (KIP-595).

Version 1 names replicas by their directories too (KIP-853), version 2 asks whether a vote would be
granted, without giving it (KIP-996).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.quorum_messages import (
    asked_by_name,
    check_request,
    leader_id_of,
    node_endpoints,
    voter_key,
)
from kaa.model.topics import CLUSTER_METADATA
from kaa.net.pending import Pending
from kaa.quorum import messages
from kaa.quorum.voters import replica_key
from kaa.wire.errors import Errors
from kaa.wire.messages.k52_vote import (
    NodeEndpoint,
    ResponsePartitionData,
    ResponseTopicData,
    VoteResponse,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k52_vote import VoteRequest


def handle(
    services: NodeServices, request: VoteRequest, context: RequestContext
) -> Answer[VoteResponse]:
    return Pending(_vote(services, request, context))


async def _vote(
    services: NodeServices, request: VoteRequest, context: RequestContext
) -> VoteResponse:
    error = check_request(services, request.cluster_id, asked_by_name(request.topics))
    if error is not Errors.NONE:
        return VoteResponse(error_code=error)
    partition = request.topics[0].partitions[0]
    answer = await services.quorum.serve(
        messages.VoteRequest(
            cluster_id=request.cluster_id,
            voter=voter_key(request.voter_id, partition.voter_directory_id),
            replica=replica_key(partition.replica_id, partition.replica_directory_id),
            replica_epoch=partition.replica_epoch,
            last_epoch=partition.last_offset_epoch,
            last_offset=partition.last_offset,
            pre_vote=partition.pre_vote,
        )
    )
    if not isinstance(answer, messages.VoteResponse):
        assert isinstance(answer, messages.ErrorResponse)
        return VoteResponse(error_code=answer.error)
    response = VoteResponse(topics=[_topic(answer)])
    response.node_endpoints = node_endpoints(NodeEndpoint, answer, context)
    return response


def _topic(answer: messages.VoteResponse) -> ResponseTopicData:
    partition = ResponsePartitionData(
        partition_index=0,
        error_code=answer.error,
        leader_id=leader_id_of(answer),
        leader_epoch=answer.leader_epoch,
        vote_granted=answer.vote_granted,
    )
    return ResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
