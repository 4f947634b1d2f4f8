"""What a replica does of its own accord: the timers of each state and the requests that are due.

`look_around` does what is due now and gives the time at which to look again. A transition may make
more due at once; the machine calls it until nothing is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa import limits
from kaa.quorum.effects import Stopped
from kaa.quorum.leader import Leader
from kaa.quorum.messages import (
    HIGH_WATERMARK_UNKNOWN,
    AddVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoteRequest,
)
from kaa.quorum.replies import leave_prospective
from kaa.quorum.serving import answer_ready_fetches
from kaa.quorum.states import (
    Candidate,
    Follower,
    Prospective,
    Unattached,
)
from kaa.quorum.voter_changes import advance_voter_change
from kaa.quorum.voters import NO_KRAFT_VERSION, ReplicaKey, node_at

if TYPE_CHECKING:
    from kaa.quorum.messages import (
        Request,
    )
    from kaa.quorum.replica import Replica
    from kaa.quorum.states import (
        Resigned,
        SnapshotDownload,
    )
    from kaa.quorum.voters import Node


def earliest(*times_ms: int | None) -> int | None:
    """The first of some times, of which None is never."""
    return min((time_ms for time_ms in times_ms if time_ms is not None), default=None)


def look_around(replica: Replica) -> int | None:
    """Do what is due; gives the next time something can be due, at most now if it already is, None
    if never.
    """
    state = replica.state
    if isinstance(state, Leader):
        return _lead(replica, state)
    _tell_of_no_leader(replica)
    if isinstance(state, Follower):
        return _follow(replica, state)
    if isinstance(state, Unattached):
        return _look_for_leader(replica, state)
    if isinstance(state, (Prospective, Candidate)):
        return _ask_for_votes(replica, state)
    return _hand_over(replica, state)


def finish_shutdown(replica: Replica) -> bool:
    """Whether the replica may stop: nobody needs it to find a leader, or the time is up."""
    deadline_ms = replica.shutdown_deadline_ms
    if deadline_ms is None:
        return False
    if not replica.is_voter or replica.is_only_voter or replica.has_remote_leader:
        replica.emit(Stopped(clean=True))
        return True
    if replica.now_ms >= deadline_ms:
        replica.emit(Stopped(clean=False))
        return True
    return False


# --- leader


def _lead(replica: Replica, state: Leader) -> int | None:
    now_ms = replica.now_ms
    has_others = any(voter_id != replica.local.id for voter_id in state.voters)
    check_quorum_ms = state.check_quorum_deadline_ms if has_others else None
    lost_majority = check_quorum_ms is not None and now_ms >= check_quorum_ms
    if lost_majority:
        replica.report(
            f"resigns from epoch {state.epoch}: no majority of the voters fetched for"
            f" {state.check_quorum_timeout_ms} ms"
        )
    if lost_majority or state.resign_requested or replica.shutdown_deadline_ms is not None:
        replica.become_resigned()
        return now_ms
    if state.parked_fetches:
        answer_ready_fetches(replica, state)
    if now_ms >= state.begin_quorum_epoch_deadline_ms:
        interval_ms = replica.config.begin_quorum_epoch_timeout_ms
        for voter in state.silent_voters(now_ms, interval_ms):
            _send_to_voter(replica, voter, _begin_quorum_epoch(replica, voter))
        # At least a millisecond on, or a fetch timeout of 0 would never let the loop end.
        state.begin_quorum_epoch_deadline_ms = now_ms + max(1, interval_ms)
    begin_ms = state.begin_quorum_epoch_deadline_ms if has_others else None
    parked_ms = min((parked.deadline_ms for parked in state.parked_fetches), default=None)
    change_ms = advance_voter_change(replica, state)
    return earliest(check_quorum_ms, begin_ms, parked_ms, change_ms)


def _begin_quorum_epoch(replica: Replica, voter: ReplicaKey) -> Request:
    return BeginQuorumEpochRequest(
        replica.cluster_id, voter, replica.local.id, replica.epoch, replica.local_endpoints
    )


def _send_to_voter(replica: Replica, voter: ReplicaKey, request: Request) -> int | None:
    node = replica.voter_node(voter.id)
    return None if node is None else replica.try_send(node, lambda: request)


def _hand_over(replica: Replica, state: Resigned) -> int | None:
    """Tell the voters to elect another leader, then look for it like everybody else."""
    retry_ms = earliest(
        *(
            _send_to_voter(replica, ReplicaKey(voter_id), _end_quorum_epoch(replica, state))
            for voter_id in sorted(state.unacknowledged)
        )
    )
    if replica.shutdown_deadline_ms is not None:
        return earliest(retry_ms, replica.shutdown_deadline_ms)
    if replica.now_ms >= state.election_deadline_ms:
        replica.become_unattached(state.epoch + 1)
        return replica.now_ms
    return earliest(retry_ms, state.election_deadline_ms)


def _end_quorum_epoch(replica: Replica, state: Resigned) -> Request:
    return EndQuorumEpochRequest(
        replica.cluster_id,
        replica.local.id,
        state.epoch,
        replica.local_endpoints,
        state.preferred_successors,
    )


# --- elections


def _ask_for_votes(replica: Replica, state: Prospective | Candidate) -> int | None:
    """A prospective asks for pre-votes, a candidate for votes."""
    if isinstance(state, Candidate) and state.ballot.is_won:
        replica.advance_nominee()
        return replica.now_ms
    if replica.shutdown_deadline_ms is not None:
        return earliest(_send_votes(replica, state), replica.shutdown_deadline_ms)
    if replica.now_ms < state.election_deadline_ms:
        return earliest(_send_votes(replica, state), state.election_deadline_ms)
    if isinstance(state, Prospective):
        leave_prospective(replica, state)
    else:
        replica.become_prospective()
    return replica.now_ms


def _send_votes(replica: Replica, state: Prospective | Candidate) -> int | None:
    if state.ballot.is_lost or not replica.is_log_settled:
        # A nominee is elected on the strength of its log, which must not shrink by a crash after it
        # got the vote.
        return None
    pre_vote = isinstance(state, Prospective)
    next_ms: int | None = None
    for voter_id in state.ballot.open():
        voter = replica.voter_set.get(voter_id)
        if voter is not None:
            request = _vote(replica, voter.key, pre_vote)
            next_ms = earliest(next_ms, _send_to_voter(replica, voter.key, request))
    return next_ms


def _vote(replica: Replica, voter: ReplicaKey, pre_vote: bool) -> Request:
    end = replica.log.end()
    return VoteRequest(
        replica.cluster_id,
        voter,
        replica.local,
        replica.epoch,
        end.epoch,
        end.offset,
        pre_vote,
    )


# --- following


def _look_for_leader(replica: Replica, state: Unattached) -> int | None:
    if not replica.may_stand:
        return _look_elsewhere(replica)
    if replica.shutdown_deadline_ms is not None:
        return replica.shutdown_deadline_ms
    if state.election_deadline_ms is None:
        # Was an observer until its voter set changed.
        state.election_deadline_ms = replica.election_deadline_ms()
    if replica.now_ms >= state.election_deadline_ms:
        replica.become_prospective()
        return replica.now_ms
    return earliest(_look_elsewhere(replica), state.election_deadline_ms)


def _follow(replica: Replica, state: Follower) -> int | None:
    if not replica.may_stand:
        return _fetch_from_best_node(replica, state)
    if replica.now_ms >= state.fetch_deadline_ms:
        replica.become_prospective()
        return replica.now_ms
    return earliest(_fetch_from_best_node(replica, state), state.fetch_deadline_ms)


def _fetch_from_best_node(replica: Replica, state: Follower) -> int | None:
    """Fetch from the leader; while it does not answer, ask others whether there is another."""
    if not replica.is_log_settled:
        # A fetch acknowledges all before its offset; that must be on disk first.
        return None
    leader_id = -1 if state.leader_id is None else state.leader_id
    leader = node_at(leader_id, state.leader_endpoints, replica.listener)
    connections, now_ms = replica.connections, replica.now_ms
    if leader is None:
        return _look_elsewhere(replica)
    paused_until_ms = connections.epoch_paused_until_ms(state.epoch)
    if now_ms < paused_until_ms:
        return paused_until_ms
    if connections.has_timed_out(leader.id, now_ms):
        connections.forget(leader.id)
        elsewhere_ms = _look_elsewhere(replica)
        return now_ms if elsewhere_ms is None else elsewhere_ms
    if connections.is_backing_off(leader.id, now_ms):
        return _look_elsewhere(replica)
    if connections.has_request_under_way(now_ms):
        return connections.next_change_ms(now_ms)
    download = state.download
    if download is not None:
        return replica.try_send(leader, lambda: _fetch_snapshot(replica, download))
    request = _membership_request(replica, state)
    if request is not None:
        return replica.try_send(leader, lambda: request)
    return replica.try_send(leader, lambda: _fetch(replica))


def _membership_request(replica: Replica, state: Follower) -> Request | None:
    """What this replica has to say about itself now: a voter what the leader does not know of it, a
    controller that joins by itself that it wants to vote.
    """
    if replica.now_ms < state.membership_deadline_ms or not state.has_fetched:
        return None
    state.membership_deadline_ms = replica.now_ms + replica.config.fetch_timeout_ms
    is_dynamic = replica.kraft_version() > NO_KRAFT_VERSION
    local, voter = replica.local_voter, replica.voter_set.get(replica.local.id)
    if replica.is_voter:
        is_known = voter == local if is_dynamic else state.has_informed_leader
        if is_known or not local.endpoints:
            return None
        return UpdateVoterRequest(replica.cluster_id, replica.epoch, local)
    if not (is_dynamic and replica.joins_by_itself and replica.can_become_voter):
        return None
    if voter is not None:
        # Its own id with the directory of a disk that is gone: that one will never vote again.
        return RemoveVoterRequest(replica.cluster_id, voter.key)
    return AddVoterRequest(
        replica.cluster_id,
        replica.local,
        local.endpoints,
        replica.config.request_timeout_ms,
        ack_when_committed=False,
    )


def _look_elsewhere(replica: Replica) -> int | None:
    if not replica.is_log_settled:
        return None
    node = replica.connections.ready_server(replica.now_ms, _voters_to_ask(replica))
    if node is not None:
        return replica.try_send(node, lambda: _fetch(replica))
    return replica.connections.next_change_ms(replica.now_ms)


def _voters_to_ask(replica: Replica) -> list[Node]:
    """Whom an observer may ask beside the bootstrap servers: those may name no voter any more, and
    then nobody there knows who leads. Voters find each other by their elections.
    """
    if replica.may_stand:
        return []
    others = (voter_id for voter_id in replica.voter_set.ids() if voter_id != replica.local.id)
    return [node for node in map(replica.voter_node, others) if node is not None]


def _tell_of_no_leader(replica: Replica) -> None:
    """Says once that no leader answers, and what an operator can do about it."""
    silent_ms = replica.now_ms - replica.leader_seen_ms
    is_busy = replica.shutdown_deadline_ms is not None or not replica.is_log_settled
    if silent_ms < limits.QUORUM_LEADERLESS_MS_MAX or is_busy or replica.trouble is not None:
        return
    if replica.may_stand:
        voters = replica.voter_set
        needed = f"{voters.majority()} of the controllers {', '.join(map(str, voters.ids()))}"
        replica.tell_trouble(
            f"the quorum has had no leader for {silent_ms // 1000} s: {needed} must run and reach "
            "each other"
        )
        return
    servers = replica.connections.servers(_voters_to_ask(replica))
    places = ", ".join(server.address for server in servers) or "none"
    replica.tell_trouble(
        f"no leader of the quorum answered for {silent_ms // 1000} s (asked: {places}): start the "
        "controllers that vote, or name them in controller.quorum.bootstrap.servers"
    )


def _fetch(replica: Replica) -> Request:
    end = replica.log.end()
    high_watermark = replica.state.high_watermark
    return FetchRequest(
        cluster_id=replica.cluster_id,
        replica=replica.local,
        leader_epoch=replica.epoch,
        fetch_offset=end.offset,
        last_fetched_epoch=end.epoch,
        high_watermark=HIGH_WATERMARK_UNKNOWN if high_watermark is None else high_watermark,
        max_wait_ms=replica.config.fetch_max_wait_ms,
        max_bytes=replica.config.fetch_max_bytes,
    )


def _fetch_snapshot(replica: Replica, download: SnapshotDownload) -> Request:
    return FetchSnapshotRequest(
        replica.cluster_id,
        replica.local,
        replica.epoch,
        download.snapshot_id,
        download.position,
        replica.config.fetch_snapshot_max_bytes,
    )
