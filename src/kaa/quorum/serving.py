"""Requests of other replicas: votes, epochs that begin and end, fetches, snapshots.

A request from an older epoch is refused with FENCED_LEADER_EPOCH and the newer one; a request
from a newer epoch makes this replica adopt it first (votes and epoch changes) or is refused with
UNKNOWN_LEADER_EPOCH (fetches, which only a leader of that very epoch can serve). An epoch that no
election reaches is refused by all: after the last one that the wire has nobody could be elected.
Every answer carries the leader and epoch known after handling.

The cluster id is compared before anything else; a stranger changes nothing. A voter key that means
another disk of this id comes from a member of the cluster, whose epoch is real: it is adopted first
and the request refused then, as in Kafka. An answer with an older epoch would tell the nominee
nothing, and it would ask again at once.

Whether the sender votes is not asked: with a voter set that changes, a replica may be asked for
its vote by a voter that it has not heard of yet (KIP-853). Who may connect at all is the listener's
matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa import limits
from kaa.quorum.effects import (
    AppendAsLeader,
    RejectAppend,
    Respond,
    RespondWithRecords,
    RespondWithSnapshot,
)
from kaa.quorum.leader import Leader, ParkedFetch
from kaa.quorum.log_view import (
    BOOTSTRAP_SNAPSHOT_ID,
    OffsetAndEpoch,
    Validity,
    validate_fetch_position,
)
from kaa.quorum.messages import (
    HIGH_WATERMARK_UNKNOWN,
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ErrorResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoteRequest,
    VoteResponse,
)
from kaa.quorum.states import Follower, Resigned
from kaa.quorum.voter_changes import (
    handle_add_voter,
    handle_remove_voter,
    handle_update_voter,
    refusal_of_change,
    settle_voter_change,
)
from kaa.quorum.voters import are_too_many
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from kaa.quorum.events import Append
    from kaa.quorum.messages import Request
    from kaa.quorum.replica import Replica
    from kaa.quorum.voters import Endpoints, ReplicaKey


def handle_request(replica: Replica, request_id: int, request: Request) -> None:
    """Answer a request, or park it if it is a fetch that has to wait."""
    if request.cluster_id is not None and request.cluster_id != replica.cluster_id:
        error = Errors.INCONSISTENT_CLUSTER_ID
        response = refusal_of_change(replica, request, error) or ErrorResponse(error)
        replica.emit(Respond(request_id, response))
        return
    if isinstance(request, FetchRequest):
        _handle_fetch(replica, request_id, request)
    elif isinstance(request, FetchSnapshotRequest):
        _handle_fetch_snapshot(replica, request_id, request)
    elif isinstance(request, AddVoterRequest):
        handle_add_voter(replica, request_id, request)
    elif isinstance(request, RemoveVoterRequest):
        handle_remove_voter(replica, request_id, request)
    elif isinstance(request, UpdateVoterRequest):
        handle_update_voter(replica, request_id, request)
    elif isinstance(request, VoteRequest):
        error, granted = _handle_vote(replica, request)
        replica.emit(Respond(request_id, _vote_response(replica, error, granted)))
    elif isinstance(request, BeginQuorumEpochRequest):
        error = _handle_begin_quorum_epoch(replica, request)
        state = replica.state
        replica.emit(
            Respond(
                request_id,
                BeginQuorumEpochResponse(
                    error, state.leader_id, state.epoch, state.leader_endpoints
                ),
            )
        )
    elif isinstance(request, EndQuorumEpochRequest):
        error = _handle_end_quorum_epoch(replica, request)
        state = replica.state
        replica.emit(
            Respond(
                request_id,
                EndQuorumEpochResponse(error, state.leader_id, state.epoch, state.leader_endpoints),
            )
        )


# --- votes


def _handle_vote(replica: Replica, request: VoteRequest) -> tuple[Errors, bool]:
    # A nominee's log cannot have records of the epoch it asks for votes in; in a pre-vote, of a
    # higher one.
    newest_legal_epoch = request.replica_epoch if request.pre_vote else request.replica_epoch - 1
    if request.last_offset < 0 or not 0 <= request.last_epoch <= newest_legal_epoch:
        return Errors.INVALID_REQUEST, False
    error = _check_voter_request(replica, request.replica.id, request.replica_epoch)
    if error is not Errors.NONE:
        return error, False
    if request.replica_epoch > replica.epoch:
        replica.become_unattached(request.replica_epoch)
    if not _is_for_this_replica(replica, request.voter):
        return Errors.INVALID_VOTER_KEY, False
    nominee_end = OffsetAndEpoch(request.last_offset, request.last_epoch)
    is_log_up_to_date = nominee_end >= replica.log.end()
    granted = replica.state.grants_vote(request.replica, is_log_up_to_date, request.pre_vote)
    if granted and not request.pre_vote:
        replica.add_vote(request.replica)
    return Errors.NONE, granted


def _vote_response(replica: Replica, error: Errors, granted: bool) -> VoteResponse:
    state = replica.state
    return VoteResponse(error, state.leader_id, state.epoch, state.leader_endpoints, granted)


def _check_voter_request(replica: Replica, sender_id: int, epoch: int) -> Errors:
    if epoch < replica.epoch:
        return Errors.FENCED_LEADER_EPOCH
    if sender_id < 0 or epoch > limits.QUORUM_EPOCHS_MAX:
        return Errors.INVALID_REQUEST
    return Errors.NONE


def _is_for_this_replica(replica: Replica, voter: ReplicaKey | None) -> bool:
    return voter is None or voter.matches(replica.local)


# --- epochs


def _handle_begin_quorum_epoch(replica: Replica, request: BeginQuorumEpochRequest) -> Errors:
    error = _adopt_leader(
        replica, request.leader_id, request.leader_epoch, request.leader_endpoints
    )
    if error is not Errors.NONE:
        return error
    if not _is_for_this_replica(replica, request.voter):
        return Errors.INVALID_VOTER_KEY
    return Errors.NONE


def _handle_end_quorum_epoch(replica: Replica, request: EndQuorumEpochRequest) -> Errors:
    error = _adopt_leader(
        replica, request.leader_id, request.leader_epoch, request.leader_endpoints
    )
    if error is not Errors.NONE:
        return error
    state = replica.state
    if isinstance(state, Follower) and state.leader_id == request.leader_id:
        state.fetch_deadline_ms = replica.now_ms + succession_delay_ms(
            replica.local, request.preferred_candidates, replica.config.election_backoff_max_ms
        )
    return Errors.NONE


def _adopt_leader(replica: Replica, leader_id: int, epoch: int, endpoints: Endpoints) -> Errors:
    error = _check_voter_request(replica, leader_id, epoch)
    if error is not Errors.NONE:
        return error
    if are_too_many(endpoints):
        return Errors.INVALID_REQUEST
    endpoints = endpoints or replica.voter_set.endpoints(leader_id)
    if not follow_if_newer(replica, leader_id, epoch, endpoints):
        return Errors.INVALID_REQUEST
    return Errors.NONE


def follow_if_newer(
    replica: Replica, leader_id: int | None, epoch: int, endpoints: Endpoints
) -> bool:
    """Take over what another replica said about leader and epoch, if it is news; False if it cannot
    be true.
    """
    state = replica.state
    if leader_id == replica.local.id:
        # Only this replica can make itself the leader.
        is_known = state.epoch == epoch and isinstance(state, Leader | Resigned)
        if not is_known:
            replica.report(
                f"a request calls it the leader of epoch {epoch}; it is {type(state).__name__}"
            )
        return is_known
    if epoch > state.epoch:
        if leader_id is None or not endpoints:
            replica.become_unattached(epoch, leader_id)
        else:
            replica.become_follower(epoch, leader_id, endpoints)
        return True
    if epoch < state.epoch or leader_id is None:
        return True
    if state.leader_id is not None and state.leader_id != leader_id:
        replica.report(
            f"a request calls {leader_id} the leader of epoch {epoch}; it is {state.leader_id}"
        )
        return False
    if endpoints and (state.leader_id is None or len(endpoints) > len(state.leader_endpoints)):
        replica.become_follower(epoch, leader_id, endpoints)
    return True


def succession_delay_ms(
    local: ReplicaKey, successors: tuple[ReplicaKey, ...], backoff_max_ms: int
) -> int:
    """How long a voter waits after the leader resigned: the first not at all, each next one twice
    as long.

    With N successors the second waits `backoff_max_ms` / 2^(N-1); a voter that is not in the list
    waits the longest.
    """
    position = next(
        (index for index, key in enumerate(successors) if key.matches(local)), len(successors)
    )
    if position == 0:
        return 0
    if position >= len(successors):
        return backoff_max_ms
    base_ms = backoff_max_ms >> (len(successors) - 1)
    return min(backoff_max_ms, base_ms << (position - 1))


# --- fetches


def _leader_or_error(replica: Replica, epoch: int) -> Leader | Errors:
    if epoch < replica.epoch:
        return Errors.FENCED_LEADER_EPOCH
    if epoch > replica.epoch:
        return Errors.UNKNOWN_LEADER_EPOCH
    if not isinstance(replica.state, Leader):
        return Errors.NOT_LEADER_OR_FOLLOWER
    return replica.state


def _empty_fetch_response(replica: Replica, error: Errors) -> FetchResponse:
    state = replica.state
    return FetchResponse(
        error=error,
        leader_id=state.leader_id,
        leader_epoch=state.epoch,
        leader_endpoints=state.leader_endpoints,
        high_watermark=state.high_watermark if error is Errors.NONE else None,
        log_start_offset=replica.log.start_offset(),
    )


def _handle_fetch(replica: Replica, request_id: int, request: FetchRequest) -> None:
    illegal = (
        request.max_wait_ms < 0
        or request.fetch_offset < 0
        or not 0 <= request.last_fetched_epoch <= request.leader_epoch
    )
    leader = Errors.INVALID_REQUEST if illegal else _leader_or_error(replica, request.leader_epoch)
    if isinstance(leader, Errors):
        replica.emit(Respond(request_id, _empty_fetch_response(replica, leader)))
        return
    if request.replica.id == replica.local.id:
        error = Errors.UNKNOWN_SERVER_ERROR
        replica.report_once(
            "own id", f"a fetch under this replica's own id, from {request.replica}"
        )
        replica.emit(Respond(request_id, _empty_fetch_response(replica, error)))
        return
    validity, position = validate_fetch_position(
        replica.log, request.fetch_offset, request.last_fetched_epoch
    )
    if validity is not Validity.VALID:
        response = _empty_fetch_response(replica, Errors.NONE)
        if validity is Validity.DIVERGING:
            response = response.replace(diverging=position)
        else:
            response = response.replace(snapshot_id=position)
        replica.emit(Respond(request_id, response))
        return
    end_offset = replica.log.end().offset
    if leader.replica_fetched(request.replica, request.fetch_offset, end_offset, replica.now_ms):
        high_watermark_moved(replica, leader)
    if _must_wait(leader, request, end_offset):
        deadline_ms = replica.now_ms + request.max_wait_ms
        leader.parked_fetches.append(ParkedFetch(request_id, request, deadline_ms))
    else:
        _answer_fetch(replica, request_id, request)


def _must_wait(leader: Leader, request: FetchRequest, end_offset: int) -> bool:
    known = HIGH_WATERMARK_UNKNOWN if leader.high_watermark is None else leader.high_watermark
    return (
        request.max_wait_ms > 0
        and request.fetch_offset >= end_offset
        and request.high_watermark >= known
        and len(leader.parked_fetches) < limits.QUORUM_PARKED_FETCHES_MAX
    )


def _answer_fetch(replica: Replica, request_id: int, request: FetchRequest) -> None:
    """Answer a fetch whose position was found valid in this leadership; it stays valid as long as
    that lasts.
    """
    response = _empty_fetch_response(replica, Errors.NONE)
    if request.fetch_offset < replica.log.end().offset:
        max_bytes = min(request.max_bytes, limits.QUORUM_PIECE_BYTES_MAX)
        replica.emit(RespondWithRecords(request_id, response, request.fetch_offset, max_bytes))
    else:
        replica.emit(Respond(request_id, response))


def answer_ready_fetches(replica: Replica, leader: Leader) -> None:
    """Answer parked fetches that there are records for, or whose time is up."""
    end_offset = replica.log.end().offset
    waiting: list[ParkedFetch] = []
    for parked in leader.parked_fetches:
        if parked.request.fetch_offset < end_offset or parked.deadline_ms <= replica.now_ms:
            _answer_fetch(replica, parked.request_id, parked.request)
        else:
            waiting.append(parked)
    leader.parked_fetches = waiting


def high_watermark_moved(replica: Replica, leader: Leader) -> None:
    """Tell the local state machine and every replica that waits."""
    assert leader.high_watermark is not None
    replica.advance_high_watermark(leader.high_watermark)
    if leader.voter_change is not None or leader.settled_voters != replica.voters.last_offset():
        settle_voter_change(replica, leader)
    parked_fetches, leader.parked_fetches = leader.parked_fetches, []
    for parked in parked_fetches:
        _answer_fetch(replica, parked.request_id, parked.request)


# --- snapshots


def _handle_fetch_snapshot(
    replica: Replica, request_id: int, request: FetchSnapshotRequest
) -> None:
    leader = _leader_or_error(replica, request.leader_epoch)
    size_bytes = replica.log.snapshot_size_bytes(request.snapshot_id)
    error = Errors.NONE
    if isinstance(leader, Errors):
        error = leader
    elif request.replica.id == replica.local.id:
        error = Errors.UNKNOWN_SERVER_ERROR
        replica.report_once(
            "own id", f"a snapshot fetch under this replica's own id, from {request.replica}"
        )
    elif size_bytes is None or request.snapshot_id == BOOTSTRAP_SNAPSHOT_ID:
        error = Errors.SNAPSHOT_NOT_FOUND
    elif not 0 <= request.position < size_bytes:
        error = Errors.POSITION_OUT_OF_RANGE
    elif request.max_bytes < 0:
        error = Errors.INVALID_REQUEST
    state = replica.state
    response = FetchSnapshotResponse(
        error=error,
        leader_id=state.leader_id,
        leader_epoch=state.epoch,
        leader_endpoints=state.leader_endpoints,
    )
    if error is not Errors.NONE or size_bytes is None or not isinstance(state, Leader):
        replica.emit(Respond(request_id, response))
        return
    state.voter_heard(request.replica, replica.now_ms)
    response = response.replace(
        snapshot_id=request.snapshot_id, size_bytes=size_bytes, position=request.position
    )
    max_bytes = min(request.max_bytes, limits.QUORUM_PIECE_BYTES_MAX)
    replica.emit(RespondWithSnapshot(request_id, response, max_bytes))


# --- the local state machine


def handle_append(replica: Replica, append: Append) -> None:
    """Append as leader of the epoch that the local state machine was notified of, or refuse."""
    state = replica.state
    if not isinstance(state, Leader) or append.epoch != state.epoch or not len(append.records):
        error = (
            Errors.NOT_LEADER_OR_FOLLOWER
            if not isinstance(state, Leader) or append.epoch < state.epoch
            else Errors.INVALID_REQUEST
        )
        replica.emit(RejectAppend(append.append_id, error))
        return
    replica.emit(
        AppendAsLeader(replica.next_write_id(), append.append_id, append.epoch, append.records)
    )
