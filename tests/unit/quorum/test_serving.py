from __future__ import annotations

import pytest

from kaa import limits
from kaa.quorum import (
    Append,
    AppendAsLeader,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    ElectionState,
    EndQuorumEpochRequest,
    ErrorResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PersistElection,
    QuorumConfig,
    RejectAppend,
    ReplicaKey,
    Report,
    Request,
    Respond,
    RespondWithRecords,
    RespondWithSnapshot,
    Shutdown,
    VoteRequest,
    VoteResponse,
)
from kaa.quorum.serving import succession_delay_ms
from kaa.quorum.states import Follower, Prospective, Unattached
from kaa.wire.errors import Errors
from tests.simulation.quorum.node import CLUSTER_ID, address
from tests.unit.quorum.bench import Bench, batch, end, key

SIZE = 1 << 20


def vote(
    replica_id: int = 1,
    epoch: int = 5,
    last: tuple[int, int] = (0, 0),
    pre_vote: bool = False,
    voter: ReplicaKey | None = None,
) -> VoteRequest:
    return VoteRequest(CLUSTER_ID, voter, key(replica_id), epoch, last[1], last[0], pre_vote)


def fetch(
    replica_id: int = 1,
    epoch: int = 1,
    offset: int = 0,
    last_epoch: int = 0,
    high_watermark: int = -1,
    max_wait_ms: int = 500,
) -> FetchRequest:
    return FetchRequest(
        CLUSTER_ID, key(replica_id), epoch, offset, last_epoch, high_watermark, max_wait_ms, SIZE
    )


def begin(leader_id: int, epoch: int, voter: ReplicaKey | None = None) -> BeginQuorumEpochRequest:
    return BeginQuorumEpochRequest(CLUSTER_ID, voter, leader_id, epoch, (address(leader_id),))


def finish(leader_id: int, epoch: int, *successors: int) -> EndQuorumEpochRequest:
    return EndQuorumEpochRequest(
        CLUSTER_ID, leader_id, epoch, (), tuple(key(node_id) for node_id in successors)
    )


@pytest.mark.parametrize(
    "request_", [vote(), fetch(), begin(1, 5), finish(1, 5)], ids=lambda r: type(r).__name__
)
def test_another_cluster_is_refused(request_: Request) -> None:
    bench = Bench.following()
    foreign = request_.replace(cluster_id="other")
    assert bench.reply(foreign) == ErrorResponse(Errors.INCONSISTENT_CLUSTER_ID)
    assert bench.machine.epoch == 3
    assert not isinstance(bench.reply(request_.replace(cluster_id=None)), ErrorResponse)


# --- votes


def test_a_vote_is_on_disk_before_it_is_answered() -> None:
    bench = Bench.following()
    effects = bench.ask(vote())
    granted = VoteResponse(Errors.NONE, None, 5, (), True)
    assert effects.index(PersistElection(ElectionState(5, None, key(1)))) < effects.index(
        Respond(1, granted)
    )
    assert bench.is_in(Unattached)


def test_a_second_candidate_of_the_epoch_is_refused_and_the_first_is_not() -> None:
    bench = Bench.following()
    bench.ask(vote(1))
    assert bench.reply(vote(2)) == VoteResponse(Errors.NONE, None, 5, (), False)
    assert bench.reply(vote(1)) == VoteResponse(Errors.NONE, None, 5, (), True)


def test_a_candidate_of_a_past_epoch_is_fenced() -> None:
    bench = Bench.following()
    assert bench.reply(vote(epoch=2)) == VoteResponse(
        Errors.FENCED_LEADER_EPOCH, 1, 3, (address(1),), False
    )


def test_a_log_that_is_behind_gets_no_vote_but_its_epoch_counts() -> None:
    bench = Bench.following(batches=(batch(0, 2, 1, 2),))
    for last in ((1, 2), (9, 1)):
        assert bench.reply(vote(last=last)) == VoteResponse(Errors.NONE, None, 5, (), False)
    assert bench.reply(vote(last=(2, 2))) == VoteResponse(Errors.NONE, None, 5, (), True)


def test_a_nominee_cannot_have_records_of_its_own_election() -> None:
    bench = Bench.following()
    invalid = VoteResponse(Errors.INVALID_REQUEST, 1, 3, (address(1),), False)
    for last in ((1, 5), (1, 6), (-1, 0), (1, -1)):
        assert bench.reply(vote(last=last)) == invalid
    assert bench.reply(vote(last=(1, 6), pre_vote=True)) == invalid
    assert bench.reply(vote(replica_id=1).replace(replica=ReplicaKey(-1))) == invalid
    # In a pre-vote the epoch is the nominee's current one, which its log may have.
    assert bench.reply(vote(last=(1, 5), pre_vote=True)) != invalid


def test_a_vote_for_another_disk_of_this_id_is_refused() -> None:
    bench = Bench.following()
    response = bench.reply(vote(voter=ReplicaKey(0, key(1).directory_id)))
    assert response == VoteResponse(Errors.INVALID_VOTER_KEY, None, 5, (), False)
    assert bench.reply(vote(voter=key(2))) == response
    assert bench.reply(vote(voter=ReplicaKey(0))) == response.replace(
        error=Errors.NONE, vote_granted=True
    )


def test_a_pre_vote_of_this_epoch_writes_nothing() -> None:
    bench = Bench.following()
    effects = bench.ask(vote(epoch=3, pre_vote=True))
    assert effects == [Respond(1, VoteResponse(Errors.NONE, 1, 3, (address(1),), True))]
    assert bench.machine.election == ElectionState(3, 1)


def test_a_prospective_voter_counts_again_after_it_voted() -> None:
    bench = Bench()
    bench.start()
    bench.advance(1000)
    assert bench.is_in(Prospective)
    response = bench.reply(vote(epoch=1).replace(replica_epoch=0, last_epoch=0, pre_vote=True))
    assert response == VoteResponse(Errors.NONE, None, 0, (), True)
    bench.ask(vote(epoch=1))
    assert bench.is_in(Unattached)
    bench.advance(1000)
    state = bench.machine.state
    assert isinstance(state, Prospective)
    assert state.voted_key == key(1)


def test_a_prospective_voter_may_still_vote_in_its_epoch() -> None:
    bench = Bench(election=ElectionState(4))
    bench.start()
    bench.advance(1000)
    before = bench.machine.state
    assert bench.reply(vote(epoch=4)) == VoteResponse(Errors.NONE, None, 4, (), True)
    after = bench.machine.state
    assert isinstance(after, Prospective)
    assert after is not before
    assert bench.machine.election == ElectionState(4, None, key(1))


# --- epochs


def test_a_new_leader_is_followed() -> None:
    bench = Bench.following()
    assert bench.reply(begin(2, 4, voter=key(0))) == BeginQuorumEpochResponse(
        Errors.NONE, 2, 4, (address(2),)
    )
    state = bench.machine.state
    assert isinstance(state, Follower)
    assert (state.leader_id, state.epoch) == (2, 4)


def test_a_leader_without_endpoints_is_looked_up_among_the_voters() -> None:
    bench = Bench.following()
    bench.ask(begin(2, 4).replace(leader_endpoints=()))
    assert bench.machine.state.leader_endpoints == (address(2),)


def test_a_leader_whose_address_nobody_knows_is_not_followed() -> None:
    bench = Bench.following()
    bench.ask(begin(9, 4).replace(leader_endpoints=()))
    assert bench.is_in(Unattached)
    assert bench.machine.election == ElectionState(4, 9)


def test_a_past_leader_is_fenced() -> None:
    bench = Bench.following()
    for request in (begin(2, 2), finish(2, 2)):
        response = bench.reply(request)
        assert isinstance(response, ErrorResponse) is False
        assert response.error is Errors.FENCED_LEADER_EPOCH
    assert bench.machine.leader_id == 1


def test_a_second_leader_of_an_epoch_is_refused() -> None:
    bench = Bench.following()
    response = bench.reply(begin(2, 3))
    assert response == BeginQuorumEpochResponse(Errors.INVALID_REQUEST, 1, 3, (address(1),))
    assert any(isinstance(effect, Report) for effect in bench.effects)
    assert bench.machine.leader_id == 1


def test_nobody_else_makes_this_replica_leader() -> None:
    bench = Bench.following()
    assert bench.reply(begin(0, 9)).error is Errors.INVALID_REQUEST
    assert bench.machine.epoch == 3


def test_a_request_meant_for_another_disk_is_refused_after_its_epoch_was_adopted() -> None:
    bench = Bench.following()
    assert bench.reply(begin(2, 4, voter=key(2))).error is Errors.INVALID_VOTER_KEY
    assert bench.machine.leader_id == 2


def test_more_endpoints_of_the_leader_are_taken_over() -> None:
    bench = Bench.following()
    both = (address(1), address(1)._replace(listener="OTHER"))
    bench.ask(begin(1, 3).replace(leader_endpoints=both))
    assert bench.machine.state.leader_endpoints == both


def test_the_first_successor_stands_at_once() -> None:
    bench = Bench.following()
    bench.ask(finish(1, 3, 0, 2))
    assert bench.is_in(Prospective)


def test_the_second_successor_waits() -> None:
    bench = Bench.following()
    bench.ask(finish(1, 3, 2, 0))
    assert bench.is_in(Follower)
    bench.advance(499)
    assert bench.is_in(Follower)
    bench.advance(1)
    assert bench.is_in(Prospective)


def test_how_long_successors_wait() -> None:
    successors = tuple(key(node_id) for node_id in range(1, 5))
    waits = [succession_delay_ms(key(node_id), successors, 1000) for node_id in range(1, 6)]
    assert waits == [0, 125, 250, 500, 1000]
    assert succession_delay_ms(key(0), (), 1000) == 0


# --- fetches


def test_only_the_leader_of_the_epoch_serves_fetches() -> None:
    bench = Bench.following()
    for epoch, error in (
        (2, Errors.FENCED_LEADER_EPOCH),
        (3, Errors.NOT_LEADER_OR_FOLLOWER),
        (4, Errors.UNKNOWN_LEADER_EPOCH),
    ):
        assert bench.reply(fetch(epoch=epoch)) == FetchResponse(error, 1, 3, (address(1),), None, 0)
    assert bench.machine.epoch == 3


def test_a_fetch_that_makes_no_sense_is_refused() -> None:
    bench = Bench.leading()
    for request in (
        fetch(offset=-1),
        fetch(max_wait_ms=-1),
        fetch(last_epoch=-1),
        fetch(last_epoch=2),
    ):
        assert bench.reply(request).error is Errors.INVALID_REQUEST
    assert bench.reply(fetch(replica_id=0)).error is Errors.UNKNOWN_SERVER_ERROR


def test_a_follower_gets_what_follows_its_log() -> None:
    bench = Bench.leading()
    assert bench.ask(fetch()) == [
        RespondWithRecords(1, FetchResponse(Errors.NONE, 0, 1, (address(0),), None, 0), 0, SIZE)
    ]


def test_a_follower_that_diverges_is_told_where() -> None:
    bench = Bench.leading(batches=(batch(0, 0, 1, 2),))
    response = bench.reply(fetch(offset=3, last_epoch=0))
    assert isinstance(response, FetchResponse)
    assert response.diverging == end(2, 0)
    state = bench.machine.describe(0)
    assert state is not None
    assert state.voters[1].log_end_offset is None


def test_a_fetch_with_nothing_to_get_waits_for_records() -> None:
    bench = Bench.leading()
    bench.ask(fetch(offset=1, last_epoch=1))
    assert bench.ask(fetch(offset=1, last_epoch=1, high_watermark=1)) == []
    effects = bench.handle(Append(7, 1, (4, 5)))
    assert [type(effect) for effect in effects] == [AppendAsLeader, RespondWithRecords]


def test_a_fetch_waits_no_longer_than_asked() -> None:
    bench = Bench.leading()
    bench.ask(fetch(offset=1, last_epoch=1))
    bench.ask(fetch(offset=1, last_epoch=1, high_watermark=1, max_wait_ms=300))
    assert bench.advance(299) == []
    effects = bench.advance(1)
    assert effects == [Respond(2, FetchResponse(Errors.NONE, 0, 1, (address(0),), 1, 0))]


def test_a_newer_high_watermark_is_told_at_once() -> None:
    bench = Bench.leading()
    bench.ask(fetch(2, offset=1, last_epoch=1))
    response = bench.reply(fetch(1, offset=1, last_epoch=1, high_watermark=0))
    assert isinstance(response, FetchResponse)
    assert response.high_watermark == 1


def test_a_fetch_that_may_not_wait_is_answered_empty() -> None:
    bench = Bench.leading()
    bench.ask(fetch(offset=1, last_epoch=1))
    response = bench.reply(fetch(offset=1, last_epoch=1, high_watermark=1, max_wait_ms=0))
    assert response == FetchResponse(Errors.NONE, 0, 1, (address(0),), 1, 0)


def test_held_fetches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUORUM_PARKED_FETCHES_MAX", 2)
    bench = Bench.leading()
    bench.ask(fetch(offset=1, last_epoch=1))
    idle = fetch(offset=1, last_epoch=1, high_watermark=1)
    assert [len(bench.ask(idle)) for _ in range(4)] == [0, 0, 1, 1]


def test_a_leader_that_stops_serves_nobody() -> None:
    bench = Bench.leading()
    bench.handle(Shutdown(5000))
    assert bench.reply(fetch()).error is Errors.NOT_LEADER_OR_FOLLOWER


# --- snapshots


def leader_with_snapshot() -> Bench:
    bench = Bench.leading(batches=(batch(0, 0, 1, 2),))
    bench.log.delete_before(bench.log.take_snapshot(2, 2))
    return bench


def snapshot(position: int, offset: int = 2, epoch: int = 1) -> FetchSnapshotRequest:
    return FetchSnapshotRequest(CLUSTER_ID, key(1), epoch, end(offset, 0), position, 10)


def test_a_follower_behind_the_log_gets_a_snapshot() -> None:
    bench = leader_with_snapshot()
    response = bench.reply(fetch(offset=1))
    assert isinstance(response, FetchResponse)
    assert response.snapshot_id == end(2, 0)


def test_a_snapshot_is_served_in_pieces() -> None:
    bench = leader_with_snapshot()
    size = bench.log.snapshot_size_bytes(end(2, 0))
    assert size is not None
    effects = bench.ask(snapshot(10))
    response = FetchSnapshotResponse(
        Errors.NONE, 0, 1, (address(0),), end(2, 0), size_bytes=size, position=10
    )
    assert effects == [RespondWithSnapshot(1, response, 10)]


def test_no_answer_is_larger_than_one_piece() -> None:
    """Whatever the other replica asks for: the answer is in memory."""
    bench = leader_with_snapshot()
    for request in (snapshot(0), fetch(offset=2)):
        (effect,) = bench.ask(request.replace(max_bytes=2**31 - 1))
        assert isinstance(effect, RespondWithRecords | RespondWithSnapshot)
        assert effect.max_bytes == limits.QUORUM_PIECE_BYTES_MAX


def test_what_is_wrong_with_a_snapshot_fetch() -> None:
    bench = leader_with_snapshot()
    own = snapshot(0).replace(replica=key(0))
    for request, error in (
        (snapshot(-1), Errors.POSITION_OUT_OF_RANGE),
        (snapshot(10_000), Errors.POSITION_OUT_OF_RANGE),
        (snapshot(0, offset=3), Errors.SNAPSHOT_NOT_FOUND),
        (snapshot(0, offset=0), Errors.SNAPSHOT_NOT_FOUND),
        (snapshot(0, epoch=9), Errors.UNKNOWN_LEADER_EPOCH),
        (snapshot(0).replace(max_bytes=-1), Errors.INVALID_REQUEST),
        (own, Errors.UNKNOWN_SERVER_ERROR),
    ):
        assert bench.reply(request) == FetchSnapshotResponse(error, 0, 1, (address(0),))


def test_fetching_a_snapshot_keeps_the_leader_in_office() -> None:
    bench = leader_with_snapshot()
    for _ in range(4):
        bench.advance(2000)
        bench.ask(snapshot(0))
    assert bench.machine.is_leader
    bench.advance(3000)
    assert not bench.machine.is_leader


# --- appends


def test_appends_are_for_the_leader_of_the_epoch() -> None:
    bench = Bench.leading()
    assert bench.handle(Append(1, 0, (1,))) == [RejectAppend(1, Errors.NOT_LEADER_OR_FOLLOWER)]
    assert bench.handle(Append(2, 9, (1,))) == [RejectAppend(2, Errors.INVALID_REQUEST)]
    assert bench.handle(Append(3, 1, ())) == [RejectAppend(3, Errors.INVALID_REQUEST)]
    assert bench.handle(Append(4, 1, (1,))) == [AppendAsLeader(2, 4, 1, (1,))]
    follower = Bench.following(config=QuorumConfig())
    assert follower.handle(Append(1, 3, (1,))) == [RejectAppend(1, Errors.NOT_LEADER_OR_FOLLOWER)]


@pytest.mark.parametrize("is_begin", [True, False])
def test_a_leader_with_more_listeners_than_one_can_have_is_not_followed(is_begin: bool) -> None:
    bench = Bench()
    epoch = bench.machine.epoch + 1
    for count, error in (
        (limits.QUORUM_LISTENERS_MAX + 1, Errors.INVALID_REQUEST),
        (limits.QUORUM_LISTENERS_MAX, Errors.NONE),
    ):
        endpoints = (address(1),) * count
        answer = bench.reply(
            BeginQuorumEpochRequest(CLUSTER_ID, None, 1, epoch, endpoints)
            if is_begin
            else EndQuorumEpochRequest(CLUSTER_ID, 1, epoch, endpoints, ())
        )
        assert answer.error is error
        assert (bench.machine.epoch == epoch) is (error is Errors.NONE)


@pytest.mark.parametrize("kind", ["vote", "begin", "end"])
def test_who_names_no_cluster_is_believed_as_far_as_elections_can_go_on(kind: str) -> None:
    """`KafkaRaftClient.hasValidClusterId` of 4.3.1 takes a request without a cluster id. Who may
    send such requests is the matter of the listener; that another epoch can follow is ours.
    """
    limit = limits.QUORUM_EPOCHS_MAX
    for cluster_id, told, error, epoch in (
        ("another", limit, Errors.INCONSISTENT_CLUSTER_ID, 1),
        (None, 2**31 - 1, Errors.INVALID_REQUEST, 1),
        (None, limit + 1, Errors.INVALID_REQUEST, 1),
        (None, limit, Errors.NONE, limit),
    ):
        requests: dict[str, Request] = {
            "vote": vote(epoch=told),
            "begin": BeginQuorumEpochRequest(CLUSTER_ID, None, 1, told, (address(1),)),
            "end": EndQuorumEpochRequest(CLUSTER_ID, 1, told, (address(1),), ()),
        }
        bench = Bench.leading()
        assert bench.reply(requests[kind].replace(cluster_id=cluster_id)).error is error
        assert bench.machine.epoch == epoch
