"""Requests about the quorum itself: they come to the controller, and its quorum answers them.

Only the leader answers. Any other replica refuses with NOT_LEADER_OR_FOLLOWER, at which those who
look for the controller look on, as they do at NOT_CONTROLLER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.controller.result import ControllerError
from kaa.model.topics import CLUSTER_METADATA
from kaa.quorum import messages
from kaa.quorum.voters import named_endpoints, replica_key
from kaa.wire.errors import Errors
from kaa.wire.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from kaa.wire.messages.k80_add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kaa.wire.messages.k81_remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaa.model.seams import Clock
    from kaa.quorum.driver import QuorumDriver
    from kaa.quorum.machine import QuorumDescription, ReplicaDescription
    from kaa.wire.schema import Request

_NODES_VERSION: Final = 2
_UNKNOWN: Final = -1


async def describe_quorum(
    quorum: QuorumDriver, clock: Clock, _: DescribeQuorumRequest, version: int
) -> DescribeQuorumResponse:
    """What this node's replica knows, which is everything since it leads."""
    found = quorum.describe()
    if found is None:
        raise ControllerError(
            Errors.NOT_LEADER_OR_FOLLOWER, "this controller does not lead the quorum"
        )
    # The machine counts in its own time, the answer in that of the calendar.
    shift_ms = clock.wall_ms() - quorum.monotonic_ms()
    response = DescribeQuorumResponse(topics=[_topic(found, shift_ms)])
    if version >= _NODES_VERSION:
        response.nodes = [
            Node(
                node_id=voter.key.id,
                listeners=[
                    Listener(name=point.listener, host=point.host, port=point.port)
                    for point in voter.endpoints
                ],
            )
            for voter in found.voter_set.voters
        ]
    return response


def _topic(found: QuorumDescription, shift_ms: int) -> ResponseTopicData:
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


async def add_voter(
    quorum: QuorumDriver, _: Clock, request: AddRaftVoterRequest, __: int
) -> AddRaftVoterResponse:
    error, message = await _change_voters(
        quorum,
        messages.AddVoterRequest(
            request.cluster_id,
            replica_key(request.voter_id, request.voter_directory_id),
            named_endpoints(request.listeners),
            request.timeout_ms,
            request.ack_when_committed,
        ),
    )
    return AddRaftVoterResponse(error_code=error, error_message=message)


async def remove_voter(
    quorum: QuorumDriver, _: Clock, request: RemoveRaftVoterRequest, __: int
) -> RemoveRaftVoterResponse:
    key = replica_key(request.voter_id, request.voter_directory_id)
    change = messages.RemoveVoterRequest(request.cluster_id, key)
    error, message = await _change_voters(quorum, change)
    return RemoveRaftVoterResponse(error_code=error, error_message=message)


async def _change_voters(
    quorum: QuorumDriver, change: messages.Request
) -> tuple[Errors, str | None]:
    answer = await quorum.serve(change)
    assert isinstance(answer, messages.VoterChangeResponse | messages.ErrorResponse)
    message = answer.message if isinstance(answer, messages.VoterChangeResponse) else None
    if answer.error is Errors.NOT_LEADER_OR_FOLLOWER:
        raise ControllerError(answer.error, message)
    return answer.error, message


QUORUM_REQUESTS: Final[
    dict[type[Request], Callable[[QuorumDriver, Clock, Any, int], Awaitable[Any]]]
] = {
    DescribeQuorumRequest: describe_quorum,
    AddRaftVoterRequest: add_voter,
    RemoveRaftVoterRequest: remove_voter,
}
