"""Requests of this replica as they go over the wire, and the answers as the machine reads them.

The counterpart, requests that come in, is with the handlers of the controller listener. A response
without exactly the metadata partition in it is an error of the request as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import kaa
from kaa.model.nodes import Endpoint, VersionRange
from kaa.model.topics import CLUSTER_METADATA
from kaa.quorum import messages
from kaa.quorum.log_view import OffsetAndEpoch
from kaa.quorum.metadata_log import METADATA_TOPIC_ID
from kaa.wire.errors import Errors
from kaa.wire.messages import (
    k01_fetch,
    k18_api_versions,
    k52_vote,
    k53_begin_quorum_epoch,
    k54_end_quorum_epoch,
    k59_fetch_snapshot,
    k80_add_raft_voter,
    k81_remove_raft_voter,
    k82_update_raft_voter,
)
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.quorum.voters import Endpoints, ReplicaKey
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import Request

_UNKNOWN_ID: Final = -1

Made = TypeVar("Made")


def wire_request(request: messages.Request) -> Request:
    """The message to send, with everything that its newest version carries."""
    match request:
        case messages.FetchRequest():
            return _fetch(request)
        case messages.VoteRequest():
            return _vote(request)
        case messages.BeginQuorumEpochRequest():
            return _begin_quorum_epoch(request)
        case messages.EndQuorumEpochRequest():
            return _end_quorum_epoch(request)
        case messages.FetchSnapshotRequest():
            return _fetch_snapshot(request)
        case messages.UpdateVoterRequest():
            return _update_voter(request)
        case messages.ApiVersionsRequest():
            return k18_api_versions.ApiVersionsRequest(
                client_software_name="kaa", client_software_version=kaa.__version__
            )
        case messages.AddVoterRequest() | messages.RemoveVoterRequest():
            return _change_voters(request)


def _directory(key: ReplicaKey | None) -> Uuid:
    return UUID_ZERO if key is None or key.directory_id is None else key.directory_id


def _id(key: ReplicaKey | None) -> int:
    return _UNKNOWN_ID if key is None else key.id


def _metadata_topic(topic: Callable[..., Made], partition: object) -> list[Made]:
    """The topics of a request about the metadata partition alone."""
    return [topic(topic_name=CLUSTER_METADATA, partitions=[partition])]


def _listeners(listener: Callable[..., Made], endpoints: Endpoints) -> list[Made]:
    return [listener(name=each.listener, host=each.host, port=each.port) for each in endpoints]


def _fetch(request: messages.FetchRequest) -> k01_fetch.FetchRequest:
    partition = k01_fetch.FetchPartition(
        partition=0,
        current_leader_epoch=request.leader_epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        replica_directory_id=_directory(request.replica),
        high_watermark=request.high_watermark,
    )
    return k01_fetch.FetchRequest(
        cluster_id=request.cluster_id,
        replica_state=k01_fetch.ReplicaState(replica_id=request.replica.id),
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.max_bytes,
        topics=[
            k01_fetch.FetchTopic(
                topic=CLUSTER_METADATA, topic_id=METADATA_TOPIC_ID, partitions=[partition]
            )
        ],
    )


def _vote(request: messages.VoteRequest) -> k52_vote.VoteRequest:
    partition = k52_vote.RequestPartitionData(
        partition_index=0,
        replica_epoch=request.replica_epoch,
        replica_id=request.replica.id,
        replica_directory_id=_directory(request.replica),
        voter_directory_id=_directory(request.voter),
        last_offset_epoch=request.last_epoch,
        last_offset=request.last_offset,
        pre_vote=request.pre_vote,
    )
    return k52_vote.VoteRequest(
        cluster_id=request.cluster_id,
        voter_id=_id(request.voter),
        topics=_metadata_topic(k52_vote.RequestTopicData, partition),
    )


def _begin_quorum_epoch(
    request: messages.BeginQuorumEpochRequest,
) -> k53_begin_quorum_epoch.BeginQuorumEpochRequest:
    wire = k53_begin_quorum_epoch
    partition = wire.RequestPartitionData(
        partition_index=0,
        voter_directory_id=_directory(request.voter),
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
    )
    return wire.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=_id(request.voter),
        topics=_metadata_topic(wire.RequestTopicData, partition),
        leader_endpoints=_listeners(wire.LeaderEndpoint, request.leader_endpoints),
    )


def _end_quorum_epoch(
    request: messages.EndQuorumEpochRequest,
) -> k54_end_quorum_epoch.EndQuorumEpochRequest:
    wire = k54_end_quorum_epoch
    partition = wire.RequestPartitionData(
        partition_index=0,
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
        preferred_successors=[key.id for key in request.preferred_candidates],
        preferred_candidates=[
            wire.ReplicaInfo(candidate_id=key.id, candidate_directory_id=_directory(key))
            for key in request.preferred_candidates
        ],
    )
    return wire.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=_metadata_topic(wire.RequestTopicData, partition),
        leader_endpoints=_listeners(wire.LeaderEndpoint, request.leader_endpoints),
    )


def _fetch_snapshot(
    request: messages.FetchSnapshotRequest,
) -> k59_fetch_snapshot.FetchSnapshotRequest:
    wire = k59_fetch_snapshot
    wanted = request.snapshot_id
    partition = wire.RequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=request.leader_epoch,
        snapshot_id=wire.SnapshotId(end_offset=wanted.offset, epoch=wanted.epoch),
        position=request.position,
        replica_directory_id=_directory(request.replica),
    )
    return wire.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.max_bytes,
        topics=[wire.RequestTopicSnapshot(name=CLUSTER_METADATA, partitions=[partition])],
    )


def _change_voters(request: messages.AddVoterRequest | messages.RemoveVoterRequest) -> Request:
    if isinstance(request, messages.RemoveVoterRequest):
        return k81_remove_raft_voter.RemoveRaftVoterRequest(
            cluster_id=request.cluster_id,
            voter_id=request.key.id,
            voter_directory_id=_directory(request.key),
        )
    return k80_add_raft_voter.AddRaftVoterRequest(
        cluster_id=request.cluster_id,
        timeout_ms=request.timeout_ms,
        voter_id=request.key.id,
        voter_directory_id=_directory(request.key),
        listeners=_listeners(k80_add_raft_voter.Listener, request.endpoints),
        ack_when_committed=request.ack_when_committed,
    )


def _update_voter(
    request: messages.UpdateVoterRequest,
) -> k82_update_raft_voter.UpdateRaftVoterRequest:
    wire, voter = k82_update_raft_voter, request.voter
    supported = voter.supported_kraft_version
    return wire.UpdateRaftVoterRequest(
        cluster_id=request.cluster_id,
        current_leader_epoch=request.leader_epoch,
        voter_id=voter.key.id,
        voter_directory_id=_directory(voter.key),
        listeners=_listeners(wire.Listener, voter.endpoints),
        kraft_version_feature=wire.KRaftVersionFeature(
            min_supported_version=supported.min, max_supported_version=supported.max
        ),
    )


# --- answers


def machine_response(response: Any, listener: str) -> messages.Response:
    """The answer that the machine reads; its endpoints are of the listener that was asked."""
    about_voters = _about_voters(response, listener)
    if about_voters is not None:
        return about_voters
    if response.error_code != Errors.NONE:
        return messages.ErrorResponse(Errors.of(response.error_code))
    is_fetch = isinstance(response, k01_fetch.FetchResponse)
    topics: Any = response.responses if is_fetch else response.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return messages.ErrorResponse(Errors.INVALID_REQUEST)
    partition = topics[0].partitions[0]
    if is_fetch:
        return _fetched(partition, response.node_endpoints, listener)
    if isinstance(response, k59_fetch_snapshot.FetchSnapshotResponse):
        return _snapshot_fetched(partition, response.node_endpoints, listener)
    facts = _leader(partition.leader_id, partition.leader_epoch, response.node_endpoints, listener)
    facts["error"] = Errors.of(partition.error_code)
    if isinstance(response, k52_vote.VoteResponse):
        return messages.VoteResponse(**facts, vote_granted=partition.vote_granted)
    if isinstance(response, k53_begin_quorum_epoch.BeginQuorumEpochResponse):
        return messages.BeginQuorumEpochResponse(**facts)
    return messages.EndQuorumEpochResponse(**facts)


def _about_voters(response: Any, listener: str) -> messages.Response | None:
    """An answer without a partition; None for one of the others."""
    error = Errors.of(response.error_code)
    match response:
        case (
            k80_add_raft_voter.AddRaftVoterResponse()
            | k81_remove_raft_voter.RemoveRaftVoterResponse()
        ):
            return messages.VoterChangeResponse(error, response.error_message)
        case k82_update_raft_voter.UpdateRaftVoterResponse():
            leader = response.current_leader
            if leader is None:
                return messages.ErrorResponse(error)
            is_known = leader.leader_id >= 0 and bool(leader.host)
            return messages.UpdateVoterResponse(
                error,
                leader.leader_id if leader.leader_id >= 0 else None,
                leader.leader_epoch,
                (Endpoint(listener, leader.host, leader.port),) if is_known else (),
            )
        case k18_api_versions.ApiVersionsResponse():
            for feature in response.supported_features:
                if feature.name == "kraft.version":
                    found = VersionRange(feature.min_version, feature.max_version)
                    return messages.ApiVersionsResponse(error, found)
            return messages.ApiVersionsResponse(error, VersionRange(0, 0))
    return None


def _leader(leader_id: int, epoch: int, endpoints: Iterable[Any], listener: str) -> dict[str, Any]:
    found: Endpoints = tuple(
        Endpoint(listener, point.host, point.port)
        for point in endpoints
        if point.node_id == leader_id
    )
    return {
        "leader_id": None if leader_id < 0 else leader_id,
        "leader_epoch": epoch,
        "leader_endpoints": found,
    }


def _fetched(
    partition: k01_fetch.PartitionData, endpoints: Iterable[Any], listener: str
) -> messages.Response:
    leader, diverging, snapshot = (
        partition.current_leader,
        partition.diverging_epoch,
        partition.snapshot_id,
    )
    if leader is None:
        return messages.ErrorResponse(Errors.INVALID_REQUEST)
    return messages.FetchResponse(
        error=Errors.of(partition.error_code),
        **_leader(leader.leader_id, leader.leader_epoch, endpoints, listener),
        high_watermark=None if partition.high_watermark < 0 else partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging=(
            None
            if diverging is None or diverging.epoch < 0
            else OffsetAndEpoch(diverging.end_offset, diverging.epoch)
        ),
        snapshot_id=(
            None
            if snapshot is None or snapshot.epoch < 0
            else OffsetAndEpoch(snapshot.end_offset, snapshot.epoch)
        ),
        records=partition.records or b"",
    )


def _snapshot_fetched(
    partition: k59_fetch_snapshot.ResponsePartitionSnapshot,
    endpoints: Iterable[Any],
    listener: str,
) -> messages.Response:
    leader = partition.current_leader
    if leader is None:
        return messages.ErrorResponse(Errors.INVALID_REQUEST)
    error = Errors.of(partition.error_code)
    found = partition.snapshot_id
    return messages.FetchSnapshotResponse(
        error=error,
        **_leader(leader.leader_id, leader.leader_epoch, endpoints, listener),
        snapshot_id=(
            OffsetAndEpoch(found.end_offset, found.epoch) if error is Errors.NONE else None
        ),
        size_bytes=partition.size,
        position=partition.position,
        records=partition.unaligned_records or b"",
    )
