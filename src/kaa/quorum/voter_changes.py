"""Voters that are added, removed and updated while the quorum runs (KIP-853).

The leader makes one change at a time: it writes a VotersRecord that differs from the last one by
one voter, and answers when a majority of the *new* set has it. Three rules make any two majorities
that decide something meet:

- nothing changes before a record of the leader's own epoch is committed, so that a change of an
  earlier leader is known to count or to be gone;
- nothing changes while the last change is not committed;
- neighbouring sets differ by one voter.

To be added, a replica must answer, support the level of kraft.version, and have fetched up to the
leader's end lately, or the quorum would wait for it before it commits anything again. A leader that
removes itself leads on, without its own vote, until that is committed, and then resigns.

While kraft.version is 0 the voters are those of the settings; each tells every new leader its
directory and versions, so that the leader can write them down when the level is raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa import limits
from kaa.quorum.effects import AppendVoters, Respond
from kaa.quorum.leader import Leader
from kaa.quorum.messages import (
    AddVoterRequest,
    ApiVersionsRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoterChangeResponse,
)
from kaa.quorum.voters import NO_KRAFT_VERSION, VoterNode, are_too_many, node_at
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from kaa.quorum.messages import (
        ApiVersionsResponse,
        Request,
        Response,
    )
    from kaa.quorum.replica import Replica
    from kaa.quorum.voters import Endpoints, ReplicaKey, VoterSet

_NOT_THE_LEADER: Final = "this controller does not lead the quorum"


class VoterChange:
    """The change that a leader makes."""

    __slots__ = (
        "ack_when_committed",
        "deadline_ms",
        "endpoints",
        "key",
        "offset",
        "request_id",
    )

    def __init__(
        self,
        request_id: int | None,
        key: ReplicaKey,
        endpoints: Endpoints,
        deadline_ms: int,
        *,
        ack_when_committed: bool = True,
    ) -> None:
        # Who waits for the end of it; None once answered.
        self.request_id = request_id
        self.key = key
        # Of a voter to add, which is asked for its versions there.
        self.endpoints = endpoints
        self.deadline_ms = deadline_ms
        self.ack_when_committed = ack_when_committed
        # Of the VotersRecord; None while the new voter is asked.
        self.offset: int | None = None


def handle_add_voter(replica: Replica, request_id: int, request: AddVoterRequest) -> None:
    if _refuse_malformed(replica, request_id, request.key):
        return
    if are_too_many(request.endpoints):
        message = f"the voter has more than {limits.QUORUM_LISTENERS_MAX} endpoints"
        _refuse(replica, request_id, Errors.INVALID_REQUEST, message)
        return
    if node_at(request.key.id, request.endpoints, replica.listener) is None:
        message = f"the voter has no endpoint for the listener {replica.listener}"
        _refuse(replica, request_id, Errors.INVALID_REQUEST, message)
        return
    found = _leader_that_may_change(replica, "adding a voter")
    if not isinstance(found, Leader):
        _refuse(replica, request_id, *found)
    elif replica.voter_set.get(request.key.id) is not None:
        message = f"a voter with the id {request.key.id} already exists"
        _refuse(replica, request_id, Errors.DUPLICATE_VOTER, message)
    elif len(replica.voter_set) >= limits.QUORUM_VOTERS_MAX:
        message = f"there are {limits.QUORUM_VOTERS_MAX} voters, which is the most"
        _refuse(replica, request_id, Errors.INVALID_REQUEST, message)
    else:
        # As in Kafka not the time that the sender would wait: no other change is made meanwhile.
        found.voter_change = VoterChange(
            request_id,
            request.key,
            request.endpoints,
            replica.now_ms + replica.config.request_timeout_ms,
            ack_when_committed=request.ack_when_committed,
        )


def handle_remove_voter(replica: Replica, request_id: int, request: RemoveVoterRequest) -> None:
    if _refuse_malformed(replica, request_id, request.key):
        return
    found = _leader_that_may_change(replica, "removing a voter")
    if not isinstance(found, Leader):
        _refuse(replica, request_id, *found)
        return
    voters = replica.voter_set.remove(request.key)
    if voters is None:
        message = f"{request.key} is not a voter, or is the last one"
        _refuse(replica, request_id, Errors.VOTER_NOT_FOUND, message)
        return
    deadline_ms = replica.now_ms + replica.config.request_timeout_ms
    found.voter_change = VoterChange(request_id, request.key, (), deadline_ms)
    _append(replica, found.voter_change, voters)


def handle_update_voter(replica: Replica, request_id: int, request: UpdateVoterRequest) -> None:
    """Answers when the change is written, as Kafka does: the voter fetches nothing while it waits,
    and without its fetches there may be no majority to commit the change.
    """
    error = _update_error(replica, request)
    state = replica.state
    if error is Errors.NONE and isinstance(state, Leader):
        if replica.kraft_version() == NO_KRAFT_VERSION:
            state.reported_voters[request.voter.key.id] = request.voter
        else:
            updated = replica.voter_set.update(request.voter)
            assert updated is not None
            deadline_ms = replica.now_ms + replica.config.request_timeout_ms
            state.voter_change = VoterChange(None, request.voter.key, (), deadline_ms)
            _append(replica, state.voter_change, updated)
    replica.emit(Respond(request_id, _update_response(replica, error)))


def _update_error(replica: Replica, request: UpdateVoterRequest) -> Errors:
    """What is wrong with an update, in the order in which Kafka looks."""
    leader, voter, level = replica.state, request.voter, replica.kraft_version()
    if request.leader_epoch < replica.epoch:
        return Errors.FENCED_LEADER_EPOCH
    if request.leader_epoch > replica.epoch:
        return Errors.UNKNOWN_LEADER_EPOCH
    if not isinstance(leader, Leader):
        return Errors.NOT_LEADER_OR_FOLLOWER
    supported = voter.supported_kraft_version
    if voter.key.directory_id is None or not 0 <= supported.min <= supported.max:
        return Errors.INVALID_REQUEST
    place = node_at(voter.key.id, voter.endpoints, replica.listener)
    if place is None or are_too_many(voter.endpoints):
        return Errors.INVALID_REQUEST
    if _change_under_way(replica, leader) is not None:
        return Errors.REQUEST_TIMED_OUT
    if not supported.min <= level <= supported.max:
        return Errors.INVALID_REQUEST
    if not replica.voter_set.is_voter(voter.key):
        return Errors.VOTER_NOT_FOUND
    return Errors.NONE


def _update_response(replica: Replica, error: Errors) -> UpdateVoterResponse:
    state = replica.state
    return UpdateVoterResponse(error, state.leader_id, state.epoch, state.leader_endpoints)


def _leader_that_may_change(replica: Replica, what: str) -> Leader | tuple[Errors, str]:
    leader = replica.state
    if not isinstance(leader, Leader):
        return Errors.NOT_LEADER_OR_FOLLOWER, _NOT_THE_LEADER
    under_way = _change_under_way(replica, leader)
    if under_way is not None:
        return Errors.REQUEST_TIMED_OUT, under_way
    if replica.kraft_version() == NO_KRAFT_VERSION:
        return Errors.UNSUPPORTED_VERSION, f"{what} needs kraft.version 1, the cluster has 0"
    return leader


def _change_under_way(replica: Replica, leader: Leader) -> str | None:
    """Why the voters cannot be changed at the moment, None if they can."""
    if leader.voter_change is not None:
        return "the leader is busy with another change of the voters"
    if leader.high_watermark is None:
        return "the leader has not committed anything in its epoch yet"
    last_offset = replica.voters.last_offset()
    if last_offset is not None and last_offset >= leader.high_watermark:
        return "the last change of the voters is not committed yet"
    return None


def _refuse_malformed(replica: Replica, request_id: int, key: ReplicaKey) -> bool:
    """Refuses, as Kafka does before it looks at anything else, where nobody can be meant; whether
    it did.
    """
    if not isinstance(replica.state, Leader):
        _refuse(replica, request_id, Errors.NOT_LEADER_OR_FOLLOWER, _NOT_THE_LEADER)
    elif key.directory_id is None or key.id < 0:
        _refuse(replica, request_id, Errors.INVALID_REQUEST, "the voter has no id or no directory")
    else:
        return False
    return True


def refusal_of_change(replica: Replica, request: Request, error: Errors) -> Response | None:
    """The answer that refuses a change of the voters; None if the request is something else."""
    if isinstance(request, UpdateVoterRequest):
        return _update_response(replica, error)
    if isinstance(request, AddVoterRequest | RemoveVoterRequest):
        return VoterChangeResponse(error, error.message)
    return None


def _refuse(replica: Replica, request_id: int, error: Errors, message: str) -> None:
    replica.emit(Respond(request_id, VoterChangeResponse(error, message)))


def _append(replica: Replica, change: VoterChange, voters: VoterSet) -> None:
    change.offset = replica.log.end().offset
    replica.emit(AppendVoters(replica.next_write_id(), replica.epoch, voters))
    if not change.ack_when_committed:
        _answer(replica, change, Errors.NONE, None)


def _answer(replica: Replica, change: VoterChange, error: Errors, message: str | None) -> None:
    if change.request_id is None:
        return
    replica.emit(Respond(change.request_id, VoterChangeResponse(error, message)))
    change.request_id = None


def advance_voter_change(replica: Replica, leader: Leader) -> int | None:
    """Does what is due of a change; gives the time at which to look again."""
    change = leader.voter_change
    if change is None:
        return None
    if replica.now_ms >= change.deadline_ms:
        _give_up(replica, leader, change, "the change of the voters took too long")
        return None
    if change.offset is not None:
        return change.deadline_ms
    node = node_at(change.key.id, change.endpoints, replica.listener)
    assert node is not None
    return min(replica.try_send(node, ApiVersionsRequest), change.deadline_ms)


def _give_up(replica: Replica, leader: Leader, change: VoterChange, message: str) -> None:
    """Lets others have their turn; another try may succeed."""
    leader.voter_change = None
    _answer(replica, change, Errors.REQUEST_TIMED_OUT, message)


def give_up_unreachable_voter(replica: Replica, node_id: int, error: Errors) -> None:
    """A request to this node has failed; if it is the voter to be added, it is not."""
    leader = replica.state
    change = leader.voter_change if isinstance(leader, Leader) else None
    if change is not None and change.offset is None and change.key.id == node_id:
        assert isinstance(leader, Leader)
        node = node_at(node_id, change.endpoints, replica.listener)
        place = node_id if node is None else node.address
        _give_up(replica, leader, change, f"the voter does not answer at {place}: {error.name}")


def handle_api_versions(replica: Replica, node_id: int, response: ApiVersionsResponse) -> None:
    """The voter to be added has answered."""
    leader = replica.state
    change = leader.voter_change if isinstance(leader, Leader) else None
    if change is None or change.offset is not None or change.key.id != node_id:
        return
    if replica.now_ms >= change.deadline_ms:
        # It is given up, and must not be written down on the way.
        return
    assert isinstance(leader, Leader)
    supported, level = response.kraft_versions, replica.kraft_version()
    progress = leader.progress(change.key)
    is_recent = (
        progress is not None
        and progress.last_caught_up_ms is not None
        and replica.now_ms - progress.last_caught_up_ms < limits.QUORUM_CAUGHT_UP_MS_MAX
    )
    if response.error is not Errors.NONE:
        _give_up(
            replica,
            leader,
            change,
            f"the voter did not report its supported versions: {response.error.name}",
        )
    elif not supported.min <= level <= supported.max:
        message = f"the voter supports kraft.version {supported.min} to {supported.max}"
        _answer(replica, change, Errors.INVALID_REQUEST, message)
        leader.voter_change = None
    elif not is_recent:
        message = "the voter lags behind; let it follow the quorum as an observer first"
        _give_up(replica, leader, change, message)
    else:
        voters = replica.voter_set.add(VoterNode(change.key, change.endpoints, supported))
        assert voters is not None
        _append(replica, change, voters)


def settle_voter_change(replica: Replica, leader: Leader) -> None:
    """The high watermark has moved."""
    change = leader.voter_change
    high_watermark = leader.high_watermark
    assert high_watermark is not None
    if change is not None and change.offset is not None and high_watermark > change.offset:
        leader.voter_change = None
        _answer(replica, change, Errors.NONE, None)
    last_offset = replica.voters.last_offset()
    if last_offset is None or high_watermark > last_offset:
        leader.settled_voters = last_offset
        if not replica.is_voter:
            replica.report(f"resigns from epoch {leader.epoch}: it is no longer a voter")
            leader.resign_requested = True


def forsake_voter_change(replica: Replica, leader: Leader) -> None:
    """The leadership is over; whether the change counts is up to the next leader."""
    change = leader.voter_change
    if change is not None:
        message = "this controller no longer leads the quorum"
        _answer(replica, change, Errors.NOT_LEADER_OR_FOLLOWER, message)
        leader.voter_change = None


def known_voters(replica: Replica, local: VoterNode, level: int) -> VoterSet | None:
    """The static voters with all that the log must say of them; None if something is missing."""
    leader = replica.state
    if not isinstance(leader, Leader):
        return None
    voters = replica.voter_set
    for voter in replica.voter_set.voters:
        is_local = voter.key.id == local.key.id
        reported = local if is_local else leader.reported_voters.get(voter.key.id)
        if reported is None or reported.supported_kraft_version.max < level:
            return None
        updated = voters.update(reported)
        assert updated is not None
        voters = updated
    return voters
