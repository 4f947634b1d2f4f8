"""FetchSnapshot, key 59: a replica of the metadata quorum that is too far behind reads a snapshot,
piece by piece (KIP-630).

Version 1 names the directory of the replica (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.quorum_messages import (
    check_request,
    leader_id_of,
    node_endpoints,
)
from kaa.model.topics import CLUSTER_METADATA
from kaa.net.pending import Pending
from kaa.quorum import messages
from kaa.quorum.log_view import OffsetAndEpoch
from kaa.quorum.voters import replica_key
from kaa.wire.errors import Errors
from kaa.wire.messages.k59_fetch_snapshot import (
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    ResponsePartitionSnapshot,
    ResponseTopicSnapshot,
    SnapshotId,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k59_fetch_snapshot import FetchSnapshotRequest


def handle(
    services: NodeServices, request: FetchSnapshotRequest, context: RequestContext
) -> Answer[FetchSnapshotResponse]:
    return Pending(_fetch(services, request, context))


async def _fetch(
    services: NodeServices, request: FetchSnapshotRequest, context: RequestContext
) -> FetchSnapshotResponse:
    asked = [
        (topic.name, [each.partition for each in topic.partitions]) for topic in request.topics
    ]
    error = check_request(services, request.cluster_id, asked)
    if error is not Errors.NONE:
        return FetchSnapshotResponse(error_code=error)
    partition = request.topics[0].partitions[0]
    wanted = partition.snapshot_id
    answer = await services.quorum.serve(
        messages.FetchSnapshotRequest(
            cluster_id=request.cluster_id,
            replica=replica_key(request.replica_id, partition.replica_directory_id),
            leader_epoch=partition.current_leader_epoch,
            snapshot_id=OffsetAndEpoch(wanted.end_offset, wanted.epoch),
            position=partition.position,
            max_bytes=request.max_bytes,
        )
    )
    if not isinstance(answer, messages.FetchSnapshotResponse):
        assert isinstance(answer, messages.ErrorResponse)
        return FetchSnapshotResponse(error_code=answer.error)
    response = FetchSnapshotResponse(topics=[_topic(answer)])
    response.node_endpoints = node_endpoints(NodeEndpoint, answer, context)
    return response


def _topic(answer: messages.FetchSnapshotResponse) -> ResponseTopicSnapshot:
    partition = ResponsePartitionSnapshot(
        index=0,
        error_code=answer.error,
        current_leader=LeaderIdAndEpoch(
            leader_id=leader_id_of(answer), leader_epoch=answer.leader_epoch
        ),
        unaligned_records=answer.records,
    )
    if answer.snapshot_id is not None:
        offset, epoch = answer.snapshot_id.offset, answer.snapshot_id.epoch
        partition.snapshot_id = SnapshotId(end_offset=offset, epoch=epoch)
        partition.size, partition.position = answer.size_bytes, answer.position
    return ResponseTopicSnapshot(name=CLUSTER_METADATA, partitions=[partition])
