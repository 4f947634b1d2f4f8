"""Events and effects of the quorum as short lines."""

from __future__ import annotations

from kaa.quorum import (
    AppendAsFollower,
    AppendAsLeader,
    AppendLeaderChange,
    AppendToSnapshot,
    BeginQuorumEpochRequest,
    BeginSnapshot,
    DiscardSnapshot,
    Effect,
    ElectionState,
    EndQuorumEpochRequest,
    ErrorResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    HighWatermarkAdvanced,
    InstallSnapshot,
    LeaderChanged,
    PersistElection,
    QuorumMachine,
    RejectAppend,
    Report,
    Request,
    Response,
    Stopped,
    TruncateLog,
    VoteRequest,
    VoteResponse,
)
from kaa.quorum.messages import (
    AddVoterRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
)
from tests.simulation.quorum.disk import Batch


def words(*parts: str | None) -> str:
    return " ".join(part for part in parts if part)


def batches_text(records: object) -> str:
    if isinstance(records, bytes):
        return f"{len(records)} bytes"
    assert isinstance(records, tuple)
    return ", ".join(
        f"{batch.base_offset}@{batch.epoch}={'+'.join(map(str, batch.values))}"
        if isinstance(batch, Batch)
        else str(batch)
        for batch in records
    )


def request_text(request: Request) -> str:
    match request:
        case VoteRequest():
            name = "PreVote" if request.pre_vote else "Vote"
            end = f"{request.last_offset}@{request.last_epoch}"
            return f"{name} epoch {request.replica_epoch}, log end {end}"
        case BeginQuorumEpochRequest():
            return f"BeginQuorumEpoch epoch {request.leader_epoch}"
        case EndQuorumEpochRequest():
            successors = ", ".join(str(key.id) for key in request.preferred_candidates)
            return words(
                f"EndQuorumEpoch epoch {request.leader_epoch}",
                f"successors {successors}" if successors else None,
            )
        case FetchRequest():
            return (
                f"Fetch epoch {request.leader_epoch} from {request.fetch_offset}"
                f"@{request.last_fetched_epoch}, high watermark {request.high_watermark}"
            )
        case FetchSnapshotRequest():
            return (
                f"FetchSnapshot epoch {request.leader_epoch} {request.snapshot_id}"
                f" from byte {request.position}"
            )
        case UpdateVoterRequest():
            return f"UpdateVoter epoch {request.leader_epoch} {request.voter.key}"
        case AddVoterRequest() | RemoveVoterRequest():
            return f"{type(request).__name__.removesuffix('Request')} {request.key}"
        case ApiVersionsRequest():
            return "ApiVersions"


def response_text(response: Response) -> str:
    name = type(response).__name__.removesuffix("Response")
    if isinstance(response, ErrorResponse):
        return f"failed with {response.error.name}"
    if isinstance(response, VoterChangeResponse | ApiVersionsResponse):
        return f"{name} answered: {response.error.name}"
    parts: list[str | None] = [
        f"{name} answered:" if response.error == 0 else f"{name} refused: {response.error.name},"
    ]
    match response:
        case VoteResponse():
            parts.append("granted," if response.vote_granted else "not granted,")
        case FetchResponse():
            parts += [
                f"[{batches_text(response.records)}]," if len(response.records) else None,
                f"diverging {response.diverging}," if response.diverging else None,
                f"snapshot {response.snapshot_id}," if response.snapshot_id else None,
                f"high watermark {response.high_watermark},",
            ]
        case FetchSnapshotResponse() if response.snapshot_id is not None:
            parts.append(
                f"{len(response.records)} bytes from {response.position} of"
                f" {response.size_bytes} of {response.snapshot_id},"
            )
        case _:
            pass
    leader = "nobody" if response.leader_id is None else str(response.leader_id)
    return words(*parts, f"epoch {response.leader_epoch} led by {leader}")


def election_text(election: ElectionState) -> str:
    return words(
        f"epoch {election.epoch}",
        None if election.leader_id is None else f"led by {election.leader_id}",
        None if election.voted_key is None else f"voted for {election.voted_key.id}",
    )


def effect_text(effect: Effect) -> str:
    """What a node does, but for the messages that it sends."""
    match effect:
        case PersistElection():
            return f"writes to quorum-state: {election_text(effect.election)}"
        case AppendLeaderChange():
            granting = ", ".join(map(str, effect.granting_voters))
            return f"appends the leader change of epoch {effect.epoch}, elected by {granting}"
        case AppendAsLeader():
            return f"appends {batches_text(effect.records)}"
        case AppendAsFollower():
            return words(
                f"appends [{batches_text(effect.records)}]", "" if effect.flush else "unflushed"
            )
        case RejectAppend():
            return f"rejects the append: {effect.error.name}"
        case TruncateLog():
            return f"truncates its log to {effect.offset}"
        case BeginSnapshot():
            return f"begins to download the snapshot {effect.snapshot_id}"
        case AppendToSnapshot():
            return (
                f"writes {len(effect.records)} bytes at {effect.position} of {effect.snapshot_id}"
            )
        case DiscardSnapshot():
            return f"drops the unfinished snapshot {effect.snapshot_id}"
        case InstallSnapshot():
            return f"installs the snapshot {effect.snapshot_id}"
        case HighWatermarkAdvanced():
            return f"high watermark {effect.high_watermark}"
        case LeaderChanged():
            leader = "nobody" if effect.leader_id is None else str(effect.leader_id)
            return f"learns: epoch {effect.epoch} is led by {leader}"
        case Report():
            return f"reports: {effect.message}"
        case Stopped():
            return "stops" if effect.clean else "stops, out of time"
        case _:
            raise AssertionError(f"{effect} is a message")


def state_text(machine: QuorumMachine) -> str:
    state = machine.state
    return words(
        f"{type(state).__name__} epoch {state.epoch}",
        None if state.leader_id is None else f"leader {state.leader_id}",
        None if state.voted_key is None else f"voted for {state.voted_key.id}",
        None if state.high_watermark is None else f"high watermark {state.high_watermark}",
    )
