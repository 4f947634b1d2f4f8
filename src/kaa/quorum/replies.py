"""Responses to this replica's own requests, and log writes that have reached the disk.

Every handler says whether the exchange was of use. If not, the node is left alone for the retry
backoff.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa import limits
from kaa.quorum.effects import (
    AppendAsFollower,
    AppendToSnapshot,
    BeginSnapshot,
    DiscardSnapshot,
    InstallSnapshot,
    TruncateLog,
)
from kaa.quorum.leader import Leader
from kaa.quorum.log_view import truncation_offset
from kaa.quorum.messages import (
    ApiVersionsResponse,
    BeginQuorumEpochResponse,
    ErrorResponse,
    FetchResponse,
    FetchSnapshotResponse,
    UpdateVoterResponse,
    VoterChangeResponse,
    VoteResponse,
)
from kaa.quorum.serving import follow_if_newer, high_watermark_moved
from kaa.quorum.states import (
    Candidate,
    Follower,
    Prospective,
    Resigned,
    SnapshotDownload,
)
from kaa.quorum.voter_changes import give_up_unreachable_voter, handle_api_versions
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from kaa.quorum.events import FetchDamaged, LogWritten, VoterSetRead
    from kaa.quorum.log_view import OffsetAndEpoch
    from kaa.quorum.messages import (
        LeaderResponse,
        Response,
    )
    from kaa.quorum.replica import Replica


def handle_response(
    replica: Replica, node_id: int, correlation_id: int, response: Response
) -> None:
    """Handle an answer that is still wanted; drop any other."""
    if not replica.connections.is_expected(node_id, correlation_id, replica.now_ms):
        return
    if isinstance(response, ErrorResponse):
        give_up_unreachable_voter(replica, node_id, response.error)
        of_use = _handle_error(replica, node_id, response.error)
    elif isinstance(response, ApiVersionsResponse):
        handle_api_versions(replica, node_id, response)
        of_use = True
    elif isinstance(response, VoterChangeResponse):
        _handle_join(replica, node_id, response)
        of_use = True
    else:
        of_use = _handle_leader_response(replica, node_id, response)
    if of_use:
        replica.accepted_by(node_id)
    pause_ms = limits.QUORUM_REFUSED_PAUSE_MS if response.error in _REMEDIES else None
    replica.connections.answered(node_id, correlation_id, of_use, replica.now_ms, pause_ms)


# Refusals that only an operator can heal: they are reported once, and tried again after a pause.
_REMEDIES: Final = {
    Errors.INCONSISTENT_CLUSTER_ID: (
        "it belongs to another cluster than {cluster_id}, the cluster.id in meta.properties here; "
        "name the controllers of that cluster in controller.quorum.bootstrap.servers, or format an "
        "empty directory for the cluster that they belong to (kaa storage format -t CLUSTER_ID)"
    ),
    Errors.CLUSTER_AUTHORIZATION_FAILED: (
        "allow the principal of this node ClusterAction on the cluster, or name it in super.users"
    ),
}


def _tell_refusal(replica: Replica, node_id: int, error: Errors, what: str = "requests") -> None:
    remedy = _REMEDIES.get(error)
    text = f"controller {replica.address(node_id)} refuses {what} of this node: {error.name}"
    if remedy is not None:
        text += f"; {remedy.format(cluster_id=replica.cluster_id)}"
        if not isinstance(replica.state, Leader):
            replica.trouble = text
    replica.report_once(node_id, text)


# Another try may succeed: the leader is busy or new, or somebody else has done it.
_NOT_YET: Final = frozenset(
    {Errors.REQUEST_TIMED_OUT, Errors.NOT_LEADER_OR_FOLLOWER, Errors.VOTER_NOT_FOUND}
)
_JOIN_REMEDIES: Final = {
    Errors.CLUSTER_AUTHORIZATION_FAILED: "allow it CLUSTER_ACTION and ALTER on the cluster",
    Errors.DUPLICATE_VOTER: "give it a node.id that no other controller has",
    Errors.INVALID_REQUEST: "check controller.listener.names and what it advertises there",
    Errors.UNSUPPORTED_VERSION: "raise kraft.version to 1, with all controllers up to date",
}


def _handle_join(replica: Replica, node_id: int, response: VoterChangeResponse) -> None:
    """The answer to a controller that wants to vote. What only people can change is reported once,
    with what to do, and asked for again after a long while.
    """
    error = response.error
    if error in _NOT_YET:
        return
    if error is not Errors.NONE and isinstance(replica.state, Follower):
        _pause_membership(replica, replica.state, node_id, error, response.message)
    replica.join_refusal = error


def _pause_membership(
    replica: Replica, state: Follower, node_id: int, error: Errors, message: str | None
) -> None:
    """Says nothing of itself to the leader for a long while, after a refusal."""
    state.membership_deadline_ms = replica.now_ms + limits.QUORUM_JOIN_REFUSED_PAUSE_MS
    if error is not replica.join_refusal:
        remedy = _JOIN_REMEDIES.get(error, "add it by hand (kaa cluster quorum add)")
        refused = "this voter's endpoints" if replica.is_voter else "this controller as a voter"
        replica.report(
            f"the leader {node_id} did not take {refused}: {error.name} ({message}); {remedy}"
        )


def _handle_error(replica: Replica, node_id: int, error: Errors) -> bool:
    if error is Errors.UNSUPPORTED_VERSION and isinstance(replica.state, Prospective):
        # A voter too old for pre-votes: elect as it knows it.
        replica.become_candidate()
        return True
    if error is Errors.UNSUPPORTED_VERSION and isinstance(replica.state, Follower):
        # What a replica says of itself is all that a leader can be too old for.
        _pause_membership(replica, replica.state, node_id, error, error.message)
        replica.join_refusal = error
        return False
    if error is not Errors.BROKER_NOT_AVAILABLE:
        _tell_refusal(replica, node_id, error)
    return False


def _handle_leader_response(replica: Replica, node_id: int, response: LeaderResponse) -> bool:
    handled = _handle_common(replica, response)
    if handled is not None:
        return handled
    if isinstance(response, FetchResponse):
        return _handle_fetch_response(replica, node_id, response)
    if isinstance(response, FetchSnapshotResponse):
        return _handle_fetch_snapshot_response(replica, node_id, response)
    if response.error is not Errors.NONE:
        what = type(response).__name__.removesuffix("Response")
        _tell_refusal(replica, node_id, response.error, what)
        return False
    if isinstance(response, VoteResponse):
        _handle_vote_response(replica, node_id, response.vote_granted)
    elif isinstance(response, BeginQuorumEpochResponse):
        _handle_begin_quorum_epoch_response(replica, node_id)
    elif isinstance(response, UpdateVoterResponse):
        if isinstance(replica.state, Follower):
            replica.state.has_informed_leader = True
    elif isinstance(replica.state, Resigned):
        replica.state.unacknowledged.discard(node_id)
    return True


def _handle_common(replica: Replica, response: LeaderResponse) -> bool | None:
    """What leader and epoch in an answer mean, whatever was asked; None when the answer itself
    still counts.
    """
    error, epoch, leader_id = response.error, response.leader_epoch, response.leader_id
    endpoints = response.leader_endpoints
    if not endpoints and leader_id is not None:
        endpoints = replica.voter_set.endpoints(leader_id)
    state = replica.state
    if epoch > limits.QUORUM_EPOCHS_MAX:
        return False
    if epoch < state.epoch or error is Errors.UNKNOWN_LEADER_EPOCH:
        # The other is behind and will learn. A fetch is better tried elsewhere, a little later.
        return not isinstance(response, FetchResponse)
    if epoch > state.epoch or error in (
        Errors.FENCED_LEADER_EPOCH,
        Errors.NOT_LEADER_OR_FOLLOWER,
    ):
        return follow_if_newer(replica, leader_id, epoch, endpoints) and replica.state is not state
    is_news = leader_id is not None and (leader_id != state.leader_id or not state.leader_endpoints)
    if is_news and not follow_if_newer(replica, leader_id, epoch, endpoints):
        return False
    if error in (Errors.BROKER_NOT_AVAILABLE, Errors.INVALID_VOTER_KEY):
        # It is shutting down; or it came back with another disk and is not the voter that it was.
        return False
    return None


# --- elections


def _handle_vote_response(replica: Replica, voter_id: int, granted: bool) -> None:
    state = replica.state
    if not isinstance(state, Prospective | Candidate):
        return
    state.ballot.record(voter_id, granted)
    replica.advance_nominee()
    if replica.state is state and isinstance(state, Prospective) and state.ballot.is_lost:
        leave_prospective(replica, state)


def leave_prospective(replica: Replica, state: Prospective) -> None:
    """Not enough replicas miss the leader: go back to it, or to looking for one."""
    if state.leader_id is not None and state.leader_endpoints:
        replica.become_follower(state.epoch, state.leader_id, state.leader_endpoints)
    else:
        replica.become_unattached(state.epoch, state.leader_id)


def _handle_begin_quorum_epoch_response(replica: Replica, voter_id: int) -> None:
    if isinstance(replica.state, Leader):
        progress = replica.state.voters.get(voter_id)
        if progress is not None:
            progress.has_acknowledged_leader = True


# --- fetches


def _handle_fetch_response(replica: Replica, node_id: int, response: FetchResponse) -> bool:
    state = replica.state
    if response.error is not Errors.NONE:
        _tell_refusal(replica, node_id, response.error, "a fetch")
        return False
    if not isinstance(state, Follower) or response.leader_id != state.leader_id:
        # A bootstrap server that knows no leader either.
        return False
    of_use = True
    if response.diverging is not None:
        _truncate(replica, response.diverging)
    elif response.snapshot_id is not None:
        of_use = _begin_download(replica, state, response.snapshot_id)
    else:
        if len(response.records):
            # A voter, or one that may become it, acknowledges with its next fetch what must then be
            # on its disk.
            flush = replica.is_voter or replica.can_become_voter
            replica.emit(
                AppendAsFollower(replica.next_write_id(), state.epoch, response.records, flush)
            )
        if response.high_watermark is not None:
            _leader_high_watermark(state, response.high_watermark)
        advance_follower_high_watermark(replica, state)
    _fetch_succeeded(replica, state)
    return of_use


def _fetch_succeeded(replica: Replica, state: Follower) -> None:
    state.has_fetched = True
    state.fetch_deadline_ms = replica.now_ms + replica.config.fetch_timeout_ms
    replica.leader_seen()


def _leader_high_watermark(state: Follower, high_watermark: int) -> None:
    known = state.leader_high_watermark
    if known is None or known < high_watermark:
        state.leader_high_watermark = high_watermark


def advance_follower_high_watermark(replica: Replica, state: Follower) -> None:
    """Follow the leader's high watermark as far as the local log goes, once that is on disk."""
    if state.leader_high_watermark is None or not replica.is_log_settled:
        return
    reached = min(state.leader_high_watermark, replica.log.end().offset)
    if state.high_watermark is None or state.high_watermark < reached:
        state.high_watermark = reached
        replica.advance_high_watermark(reached)


def _truncate(replica: Replica, diverging: OffsetAndEpoch) -> None:
    offset = truncation_offset(replica.log, diverging)
    if offset < replica.committed_offset:
        raise replica.fault(
            f"the leader asks to truncate to {offset}, below the high watermark"
            f" {replica.committed_offset}: committed records were lost somewhere"
        )
    replica.voters.truncate_to(offset)
    replica.emit(TruncateLog(replica.next_write_id(), offset))


# --- snapshots


def _begin_download(replica: Replica, state: Follower, snapshot_id: OffsetAndEpoch) -> bool:
    if snapshot_id.offset < replica.committed_offset:
        raise replica.fault(
            f"the leader offers the snapshot {snapshot_id}, which ends below the high watermark"
            f" {replica.committed_offset}"
        )
    if snapshot_id <= replica.log.end():
        replica.report(f"the leader offers {snapshot_id}, the log ends at {replica.log.end()}")
        return False
    state.download = SnapshotDownload(snapshot_id)
    replica.emit(BeginSnapshot(snapshot_id))
    return True


def _handle_fetch_snapshot_response(
    replica: Replica, node_id: int, response: FetchSnapshotResponse
) -> bool:
    state = replica.state
    if not isinstance(state, Follower) or state.download is None:
        return False
    download = state.download
    if response.error is Errors.SNAPSHOT_NOT_FOUND or response.snapshot_id is None:
        # The leader has a newer one by now; the next fetch tells which.
        _drop_download(replica, state)
        _fetch_succeeded(replica, state)
        return response.error in (Errors.NONE, Errors.SNAPSHOT_NOT_FOUND)
    is_next_piece = (
        response.error is Errors.NONE
        and response.snapshot_id == download.snapshot_id
        and response.position == download.position
        and 0 < len(response.records) <= response.size_bytes - download.position
    )
    if not is_next_piece:
        replica.report(
            f"{node_id} answered {response.error.name} with {len(response.records)} bytes at"
            f" {response.position} of {response.size_bytes} of the snapshot {response.snapshot_id},"
            f" asked for {download.snapshot_id} at {download.position}"
        )
        _drop_download(replica, state)
        return False
    replica.emit(AppendToSnapshot(download.snapshot_id, download.position, response.records))
    download.position += len(response.records)
    if download.position == response.size_bytes:
        state.download = None
        replica.installing = replica.next_write_id()
        replica.emit(InstallSnapshot(replica.installing, download.snapshot_id))
        # A snapshot holds committed records only.
        _leader_high_watermark(state, download.snapshot_id.offset)
    _fetch_succeeded(replica, state)
    return True


def _drop_download(replica: Replica, state: Follower) -> None:
    if state.download is not None:
        replica.emit(DiscardSnapshot(state.download.snapshot_id))
        state.download = None


# --- the log and the voter set


def handle_log_written(replica: Replica, written: LogWritten) -> None:
    """Count what is on disk now."""
    if not replica.writes_completed < written.write_id <= replica.writes_requested:
        raise replica.fault(
            f"log write {written.write_id} was reported, writes {replica.writes_completed + 1}"
            f" to {replica.writes_requested} are open"
        )
    replica.writes_completed = written.write_id
    if replica.installing is not None and written.write_id >= replica.installing:
        replica.voters_installed()
    state = replica.state
    if isinstance(state, Leader):
        if state.local_written(written.end_offset):
            high_watermark_moved(replica, state)
    elif isinstance(state, Follower):
        advance_follower_high_watermark(replica, state)


def handle_damage(replica: Replica, damaged: FetchDamaged) -> None:
    """What the leader sent was no good; it would send the same again. The leader of another epoch
    is asked at once, since that may be another one.
    """
    if damaged.write_id is not None:
        # The log is as it was, and so are the voters.
        replica.writes_completed = damaged.write_id
        replica.installing = None
    state = replica.state
    if not isinstance(state, Follower):
        return
    pause_ms = limits.QUORUM_REFUSED_PAUSE_MS
    replica.connections.pause_epoch(state.epoch, replica.now_ms + pause_ms)
    leader_id = -1 if state.leader_id is None else state.leader_id
    replica.report_once(
        "damage",
        f"what the leader {replica.address(leader_id)} sends cannot be taken: {damaged.what}; it "
        f"is asked again every {pause_ms // 1000} s. Restart that controller, so that another "
        "leads or it writes a new snapshot, and check its disk and its memory",
    )


def handle_voter_set(replica: Replica, read: VoterSetRead) -> None:
    """A voter set is in force from here on."""
    if replica.installing is not None:
        replica.voters_installed()
    replica.voters.append(read.offset, read.voters)
    state = replica.state
    if isinstance(state, Leader) and state.set_voters(read.voters):
        high_watermark_moved(replica, state)
