"""Fetch, key 1, on the controller listener: a replica of the metadata quorum reads the metadata log
(KIP-595).

A fetch at an offset also says that everything before it is on the replica's disk. The answer has
records, or the end of the last common epoch if the logs went different ways, or the id of a
snapshot if the log does not reach back that far.

| version | what is new |
|---|---|
| 13 | the first that is answered with more than an error: topics by id |
| 15 | the id of the replica moved (KIP-903) |
| 17 | the directory of the replica, and where the leader listens (KIP-853) |
| 18 | the high watermark that the replica knows (KIP-1166) |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.handlers.quorum_messages import (
    check_request,
    leader_id_of,
    node_endpoints,
)
from kaa.net.pending import Pending
from kaa.quorum import messages
from kaa.quorum.metadata_log import METADATA_TOPIC_ID
from kaa.quorum.voters import replica_key
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k01_fetch import FetchRequest

_TOPIC_IDS_VERSION: Final = 13
_ENDPOINTS_VERSION: Final = 17


def handle(
    services: NodeServices, request: FetchRequest, context: RequestContext
) -> Answer[FetchResponse]:
    return Pending(_fetch(services, request, context))


async def _fetch(
    services: NodeServices, request: FetchRequest, context: RequestContext
) -> FetchResponse:
    version = context.api_version
    asked = [
        (topic.topic_id, [each.partition for each in topic.partitions]) for topic in request.topics
    ]
    error = check_request(services, request.cluster_id, asked)
    if error is Errors.NONE and version < _TOPIC_IDS_VERSION:
        error = Errors.INVALID_REQUEST
    if error is not Errors.NONE:
        return FetchResponse(error_code=error)
    answer = await services.quorum.serve(_converted(request))
    if not isinstance(answer, messages.FetchResponse):
        assert isinstance(answer, messages.ErrorResponse)
        return FetchResponse(error_code=answer.error)
    response = FetchResponse(responses=[_topic(answer)])
    response.node_endpoints = node_endpoints(NodeEndpoint, answer, context, _ENDPOINTS_VERSION)
    return response


def _converted(request: FetchRequest) -> messages.FetchRequest:
    partition = request.topics[0].partitions[0]
    state = request.replica_state
    replica_id = request.replica_id if state is None else state.replica_id
    return messages.FetchRequest(
        cluster_id=request.cluster_id,
        replica=replica_key(replica_id, partition.replica_directory_id),
        leader_epoch=partition.current_leader_epoch,
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        high_watermark=partition.high_watermark,
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.max_bytes,
    )


def _topic(answer: messages.FetchResponse) -> FetchableTopicResponse:
    partition = PartitionData(
        partition_index=0,
        error_code=answer.error,
        high_watermark=-1 if answer.high_watermark is None else answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        current_leader=LeaderIdAndEpoch(
            leader_id=leader_id_of(answer), leader_epoch=answer.leader_epoch
        ),
        records=answer.records,
    )
    if answer.diverging is not None:
        partition.diverging_epoch = EpochEndOffset(
            epoch=answer.diverging.epoch, end_offset=answer.diverging.offset
        )
    if answer.snapshot_id is not None:
        partition.snapshot_id = SnapshotId(
            end_offset=answer.snapshot_id.offset, epoch=answer.snapshot_id.epoch
        )
    return FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[partition])
