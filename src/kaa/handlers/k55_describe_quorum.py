"""DescribeQuorum, key 55: the replicas of the metadata quorum and how far they are (KIP-595).

Only the metadata partition is known; if a request asks for anything else, everything in it is
unknown. Only the leader answers.

| version | |
|---|---|
| 1 | when replicas fetched last, and when they had everything (KIP-836) |
| 2 | directories of replicas, addresses of voters, errors in words (KIP-853) |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.controller.result import ControllerError
from kaa.handlers.forwarding import forward, is_controller_listener
from kaa.handlers.in_slices import in_slices
from kaa.handlers.quorum_messages import asked_by_name, check_request
from kaa.limits import METADATA_PARTITIONS_PER_SLICE_MAX
from kaa.model.topics import CLUSTER_METADATA
from kaa.net.pending import Pending
from kaa.wire.errors import Errors
from kaa.wire.messages.k55_describe_quorum import (
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, Encoded, RequestContext
    from kaa.quorum.machine import QuorumDescription, ReplicaDescription
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k55_describe_quorum import DescribeQuorumRequest, RequestTopicData
    from kaa.wire.schema import Response

_NODES_VERSION: Final = 2
_UNKNOWN: Final = -1


def handle(
    services: NodeServices, request: DescribeQuorumRequest, context: RequestContext
) -> Answer[Response | Encoded]:
    if is_controller_listener(services, context) or services.metadata.active is not None:
        return describe(services, request, context)
    return Pending(forward(services, request, context))


def describe(
    services: NodeServices, request: DescribeQuorumRequest, context: RequestContext
) -> Answer[Response | Encoded]:
    """What this node's replica knows, which is everything only if it leads."""
    if check_request(services, None, asked_by_name(request.topics)) is not Errors.NONE:
        return _unknown(services, request, context)
    description = services.quorum.describe()
    if description is None and context.is_enveloped:
        # A broker looks for another controller at this error alone; at that of the answer a JVM
        # broker would ask here for as long as it is connected.
        raise ControllerError(Errors.NOT_CONTROLLER)
    if description is None:
        return DescribeQuorumResponse(
            error_code=Errors.NOT_LEADER_OR_FOLLOWER,
            error_message="this controller does not lead the quorum",
        )
    response = DescribeQuorumResponse(topics=[_topic(services, description)])
    if context.api_version >= _NODES_VERSION:
        response.nodes = [
            Node(
                node_id=voter.key.id,
                listeners=[
                    Listener(name=point.listener, host=point.host, port=point.port)
                    for point in voter.endpoints
                ],
            )
            for voter in services.quorum.machine.voter_set.voters
        ]
    return response


def _topic(services: NodeServices, found: QuorumDescription) -> ResponseTopicData:
    # The machine counts in its own time, the answer in that of the calendar.
    shift_ms = services.clock.wall_ms() - services.quorum.monotonic_ms()
    partition = ResponsePartitionData(
        partition_index=0,
        leader_id=found.leader_id,
        leader_epoch=found.leader_epoch,
        high_watermark=_UNKNOWN if found.high_watermark is None else found.high_watermark,
        current_voters=[_replica(each, shift_ms) for each in found.voters],
        observers=[_replica(each, shift_ms) for each in found.observers],
    )
    return ResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])


def _replica(found: ReplicaDescription, shift_ms: int) -> ReplicaState:
    directory = found.key.directory_id
    fetched_ms, caught_up_ms = found.last_fetch_ms, found.last_caught_up_ms
    return ReplicaState(
        replica_id=found.key.id,
        replica_directory_id=UUID_ZERO if directory is None else directory,
        log_end_offset=_UNKNOWN if found.log_end_offset is None else found.log_end_offset,
        last_fetch_timestamp=_UNKNOWN if fetched_ms is None else fetched_ms + shift_ms,
        last_caught_up_timestamp=_UNKNOWN if caught_up_ms is None else caught_up_ms + shift_ms,
    )


def _unknown(
    services: NodeServices, request: DescribeQuorumRequest, context: RequestContext
) -> Answer[Response | Encoded]:
    return in_slices(
        services,
        context,
        request.topics,
        _unknown_topic,
        lambda topics: DescribeQuorumResponse(topics=topics),
        slice_max=METADATA_PARTITIONS_PER_SLICE_MAX,
        cost=lambda topic: len(topic.partitions),
    )


def _unknown_topic(asked: RequestTopicData) -> ResponseTopicData:
    error = Errors.UNKNOWN_TOPIC_OR_PARTITION
    return ResponseTopicData(
        topic_name=asked.topic_name,
        partitions=[
            ResponsePartitionData(
                partition_index=partition.partition_index,
                error_code=error,
                error_message=error.message,
            )
            for partition in asked.partitions
        ],
    )
