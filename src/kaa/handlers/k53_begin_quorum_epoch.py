"""BeginQuorumEpoch, key 53: a controller tells that it leads the metadata quorum (KIP-595).

Version 1 names the voter that is meant and where the leader listens (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.names import METADATA_TOPIC
from kaa.handlers.quorum_messages import (
    check_request,
    leader_address,
    leader_endpoints,
    leader_id_of,
    voter_key,
)
from kaa.quorum import messages
from kaa.wire.errors import Errors
from kaa.wire.messages.k53_begin_quorum_epoch import (
    BeginQuorumEpochResponse,
    NodeEndpoint,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k53_begin_quorum_epoch import BeginQuorumEpochRequest


async def handle(
    services: Services, request: BeginQuorumEpochRequest, context: RequestContext
) -> BeginQuorumEpochResponse:
    asked = [
        (topic.topic_name, [each.partition_index for each in topic.partitions])
        for topic in request.topics
    ]
    error = check_request(services, request.cluster_id, asked)
    if error is not Errors.NONE:
        return BeginQuorumEpochResponse(error_code=error)
    partition = request.topics[0].partitions[0]
    answer = await services.quorum.serve(
        messages.BeginQuorumEpochRequest(
            cluster_id=request.cluster_id,
            voter=voter_key(request.voter_id, partition.voter_directory_id),
            leader_id=partition.leader_id,
            leader_epoch=partition.leader_epoch,
            leader_endpoints=leader_endpoints(request.leader_endpoints),
        )
    )
    if not isinstance(answer, messages.BeginQuorumEpochResponse):
        assert isinstance(answer, messages.ErrorResponse)
        return BeginQuorumEpochResponse(error_code=answer.error)
    told = ResponsePartitionData(
        partition_index=0,
        error_code=answer.error,
        leader_id=leader_id_of(answer),
        leader_epoch=answer.leader_epoch,
    )
    response = BeginQuorumEpochResponse(
        topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[told])]
    )
    address = leader_address(answer, context.listener_name)
    if address is not None and context.api_version >= 1:
        response.node_endpoints = [
            NodeEndpoint(node_id=address.node_id, host=address.host, port=address.port)
        ]
    return response
