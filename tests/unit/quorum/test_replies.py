from __future__ import annotations

import pytest

from kaa import limits
from kaa.quorum import (
    Append,
    AppendAsFollower,
    AppendToSnapshot,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    BeginSnapshot,
    DiscardSnapshot,
    ElectionState,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ErrorResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    HighWatermarkAdvanced,
    InstallSnapshot,
    LogWritten,
    Node,
    OffsetAndEpoch,
    QuorumError,
    ReplicaKey,
    Report,
    SendRequest,
    TruncateLog,
    VoteRequest,
    VoteResponse,
    VoterNode,
    VoterSet,
    VoterSetRead,
)
from kaa.quorum.leader import Leader
from kaa.quorum.states import Candidate, Follower, Prospective, Resigned, Unattached
from kaa.quorum.voters import KRAFT_VERSIONS
from kaa.wire.errors import Errors
from tests.simulation.quorum.node import CLUSTER_ID, address
from tests.support.ids import uuid
from tests.unit.quorum.bench import Bench, batch, end, key, records, refusal


def last_fetch(bench: Bench) -> SendRequest:
    return bench.sent(FetchRequest)[-1][0]


def vote_response(
    granted: bool = False,
    epoch: int = 0,
    leader_id: int | None = None,
    error: Errors = Errors.NONE,
) -> VoteResponse:
    endpoints = () if leader_id is None else (address(leader_id),)
    return VoteResponse(error, leader_id, epoch, endpoints, granted)


def standing() -> Bench:
    """A voter of three that asks for pre-votes in epoch 0."""
    bench = Bench()
    bench.start()
    bench.advance(1000)
    return bench


def votes(bench: Bench) -> list[SendRequest]:
    return [send for send, _ in bench.sent(VoteRequest)]


# --- elections


def test_a_majority_of_pre_votes_makes_a_candidate_and_one_of_votes_a_leader() -> None:
    bench = standing()
    bench.answer(votes(bench)[0], vote_response(granted=True))
    assert bench.is_in(Candidate)
    assert bench.machine.election == ElectionState(1, None, key(0))
    bench.answer(votes(bench)[-1], vote_response(granted=True, epoch=1))
    assert bench.machine.is_leader
    assert bench.machine.election == ElectionState(1, 0)


def test_too_many_refusals_end_a_pre_vote() -> None:
    bench = standing()
    for send in votes(bench):
        assert bench.is_in(Prospective)
        bench.answer(send, vote_response())
    assert bench.is_in(Unattached)


def test_too_many_refusals_send_a_follower_back_to_its_leader() -> None:
    bench = Bench.following()
    bench.advance(2000)
    for send in votes(bench):
        bench.answer(send, vote_response(epoch=3, leader_id=1))
    state = bench.machine.state
    assert isinstance(state, Follower)
    assert not state.has_fetched


def test_a_refused_candidate_waits_for_the_end_of_its_time() -> None:
    bench = standing()
    bench.answer(votes(bench)[0], vote_response(granted=True))
    bench.forget()
    bench.advance(0)
    for send in votes(bench):
        bench.answer(send, vote_response(epoch=1))
    assert bench.is_in(Candidate)
    bench.advance(1000)
    assert bench.is_in(Prospective)


def test_a_nominee_that_hears_of_a_leader_follows_it() -> None:
    bench = standing()
    bench.answer(votes(bench)[0], vote_response(leader_id=2))
    assert bench.is_in(Follower)
    assert bench.machine.leader_id == 2


def test_a_nominee_that_hears_of_a_higher_epoch_adopts_it() -> None:
    bench = standing()
    error = Errors.FENCED_LEADER_EPOCH
    bench.answer(votes(bench)[0], vote_response(epoch=7, error=error))
    assert bench.machine.election == ElectionState(7)


@pytest.mark.parametrize("error", [Errors.NONE, Errors.FENCED_LEADER_EPOCH])
def test_an_answer_with_an_epoch_that_none_could_follow_counts_nothing(error: Errors) -> None:
    bench = standing()
    told = limits.QUORUM_EPOCHS_MAX + 1
    bench.answer(votes(bench)[0], vote_response(granted=True, epoch=told, error=error))
    assert bench.is_in(Prospective)
    assert bench.machine.epoch == 0
    bench = Bench.following()
    bench.advance(0)
    answer = FetchResponse(error, 2, told, (address(2),), None, 0)
    bench.answer(last_fetch(bench), answer)
    assert bench.machine.epoch == 3
    assert bench.machine.leader_id == 1


def test_a_voter_too_old_for_pre_votes_is_asked_for_its_vote() -> None:
    bench = standing()
    bench.answer(votes(bench)[0], ErrorResponse(Errors.UNSUPPORTED_VERSION))
    assert bench.is_in(Candidate)


def test_a_failed_request_is_repeated_after_a_pause() -> None:
    bench = standing()
    first = votes(bench)[0]
    bench.answer(first, ErrorResponse(Errors.BROKER_NOT_AVAILABLE))
    bench.answer(first, ErrorResponse(Errors.BROKER_NOT_AVAILABLE))
    bench.forget()
    bench.advance(19)
    assert votes(bench) == []
    bench.advance(1)
    assert [send.node for send in votes(bench)] == [first.node]


@pytest.mark.parametrize("error", [Errors.INVALID_REQUEST, Errors.INVALID_VOTER_KEY])
def test_a_voter_that_refuses_to_vote_is_asked_again_later(error: Errors) -> None:
    bench = standing()
    first = votes(bench)[0]
    bench.forget()
    bench.answer(first, vote_response(error=error))
    assert votes(bench) == []
    bench.advance(20)
    assert [send.node for send in votes(bench)] == [first.node]


def test_an_answer_of_the_last_election_is_not_one_of_this() -> None:
    bench = standing()
    stale = votes(bench)
    bench.answer(stale[0], vote_response(granted=True))
    bench.answer(stale[1], vote_response(granted=True, epoch=1))
    assert bench.is_in(Candidate)


def test_two_leaders_of_an_epoch_are_not_believed() -> None:
    bench = Bench.following()
    bench.answer(last_fetch(bench), refusal(Errors.NOT_LEADER_OR_FOLLOWER, leader_id=2))
    assert bench.machine.leader_id == 1
    assert any(isinstance(effect, Report) for effect in bench.effects)


def test_a_resigned_leader_notes_who_knows() -> None:
    bench = Bench(election=ElectionState(3, 0))
    bench.start()
    state = bench.machine.state
    assert isinstance(state, Resigned)
    assert state.unacknowledged == {1, 2}
    send, _ = bench.sent(EndQuorumEpochRequest)[0]
    bench.answer(send, EndQuorumEpochResponse(Errors.NONE, 0, 3, (address(0),)))
    assert state.unacknowledged == {2}


def test_a_voter_acknowledges_its_leader() -> None:
    bench = Bench.leading()
    state = bench.machine.state
    assert isinstance(state, Leader)
    send, _ = bench.sent(BeginQuorumEpochRequest)[0]
    assert not state.voters[1].has_acknowledged_leader
    bench.answer(send, BeginQuorumEpochResponse(Errors.NONE, 0, 1, (address(0),)))
    assert state.voters[1].has_acknowledged_leader


def test_a_leader_named_without_address_is_looked_up_among_the_voters() -> None:
    bench = standing()
    bench.answer(votes(bench)[0], vote_response(leader_id=2).replace(leader_endpoints=()))
    assert bench.machine.state.leader_endpoints == (address(2),)


def test_a_vote_that_names_another_leader_of_the_epoch_does_not_count() -> None:
    bench = Bench.following()
    bench.advance(2000)
    bench.answer(votes(bench)[0], vote_response(granted=True, epoch=3, leader_id=2))
    assert bench.is_in(Prospective)


def test_a_bootstrap_server_that_knows_no_leader_is_left_alone_for_a_moment() -> None:
    bench = Bench(bootstrap=(Node(-2, "node-1", 9093),))
    bench.start()
    send = last_fetch(bench)
    assert send.node.id == -2
    bench.forget()
    bench.answer(send, refusal(Errors.NOT_LEADER_OR_FOLLOWER, epoch=0, leader_id=None))
    bench.advance(19)
    assert bench.sent(FetchRequest) == []
    bench.advance(1)
    again = last_fetch(bench)
    bench.forget()
    bench.answer(again, records(epoch=0, leader_id=None))
    assert bench.sent(FetchRequest) == []


def test_a_bootstrap_server_that_leads_is_followed_and_its_records_are_taken() -> None:
    bench = Bench(bootstrap=(Node(-2, "node-1", 9093),), election=ElectionState(3))
    bench.start()
    bench.answer(last_fetch(bench), records(batch(0, 3, 1)))
    assert bench.is_in(Follower)
    assert bench.log.end() == end(1, 3)
    assert last_fetch(bench).node.id == 1


# --- fetches


def test_records_are_appended_flushed_and_then_acknowledged() -> None:
    bench = Bench.following(is_flushing=False)
    fetch = last_fetch(bench)
    bench.forget()
    effects = bench.answer(fetch, records(batch(0, 3, 1, 2), high_watermark=1))
    assert effects == [AppendAsFollower(1, 3, (batch(0, 3, 1, 2),), flush=True)]
    # Neither is the next fetch sent, nor does the high watermark move, before the flush is done.
    effects = bench.handle(LogWritten(1, 2))
    assert effects[0] == HighWatermarkAdvanced(1)
    assert isinstance(effects[1], SendRequest)
    assert isinstance(effects[1].request, FetchRequest)
    assert (effects[1].request.fetch_offset, effects[1].request.high_watermark) == (2, 1)


def test_an_observer_need_not_flush() -> None:
    bench = Bench.following(node_id=5, can_become_voter=False)
    effects = bench.answer(last_fetch(bench), records(batch(0, 3, 1)))
    assert effects[0] == AppendAsFollower(1, 3, (batch(0, 3, 1),), flush=False)


def test_an_observer_that_may_become_a_voter_flushes() -> None:
    bench = Bench.following(node_id=5)
    effects = bench.answer(last_fetch(bench), records(batch(0, 3, 1)))
    assert effects[0] == AppendAsFollower(1, 3, (batch(0, 3, 1),), flush=True)


def test_the_high_watermark_of_a_follower_ends_at_its_log_and_never_falls() -> None:
    bench = Bench.following()
    bench.answer(last_fetch(bench), records(batch(0, 3, 1, 2), high_watermark=9))
    assert bench.machine.high_watermark == 2
    bench.answer(last_fetch(bench), records(high_watermark=1))
    assert bench.machine.high_watermark == 2
    bench.answer(last_fetch(bench), records(batch(2, 3, 3), high_watermark=1))
    assert bench.machine.high_watermark == 3


def test_a_diverging_log_is_truncated_and_fetched_from_there() -> None:
    bench = Bench.following(batches=(batch(0, 1, 1), batch(1, 2, 2), batch(2, 2, 3)))
    effects = bench.answer(last_fetch(bench), records().replace(diverging=end(1, 1)))
    assert effects[0] == TruncateLog(1, 1)
    request = last_fetch(bench).request
    assert isinstance(request, FetchRequest)
    assert (request.fetch_offset, request.last_fetched_epoch) == (1, 1)


def test_committed_records_are_not_truncated() -> None:
    bench = Bench.following(batches=(batch(0, 1, 1), batch(1, 2, 2)))
    bench.answer(last_fetch(bench), records(high_watermark=2))
    with pytest.raises(QuorumError, match="below the high watermark 2"):
        bench.answer(last_fetch(bench), records().replace(diverging=end(1, 1)))


def test_an_answered_fetch_keeps_the_leader() -> None:
    bench = Bench.following()
    for _ in range(4):
        bench.advance(1500)
        bench.answer(last_fetch(bench), records())
    state = bench.machine.state
    assert isinstance(state, Follower)
    assert state.has_fetched
    bench.advance(2000)
    assert bench.is_in(Prospective)


@pytest.mark.parametrize(
    "response",
    [
        ErrorResponse(Errors.BROKER_NOT_AVAILABLE),
        refusal(Errors.BROKER_NOT_AVAILABLE),
        refusal(Errors.NOT_LEADER_OR_FOLLOWER),
        refusal(Errors.UNKNOWN_LEADER_EPOCH, epoch=2),
        refusal(Errors.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_refused_fetch_is_repeated_after_a_pause(
    response: FetchResponse | ErrorResponse,
) -> None:
    bench = Bench.following()
    fetch = last_fetch(bench)
    bench.forget()
    bench.answer(fetch, response)
    assert bench.sent(FetchRequest) == []
    bench.advance(20)
    assert len(bench.sent(FetchRequest)) == 1
    assert bench.machine.leader_id == 1


def reports(bench: Bench) -> list[str]:
    return [effect.message for effect in bench.effects if isinstance(effect, Report)]


def refuse_all(bench: Bench, seconds: int, response: FetchResponse | ErrorResponse) -> int:
    """Every fetch of some time is refused; gives how many there were."""
    count = 0
    for _ in range(seconds * 100):
        for send, _ in bench.sent(FetchRequest)[count:]:
            bench.answer(send, response)
            count += 1
        bench.advance(10)
    return count


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (Errors.INCONSISTENT_CLUSTER_ID, "kaa storage format -t"),
        (Errors.CLUSTER_AUTHORIZATION_FAILED, "ClusterAction"),
    ],
)
def test_a_refusal_that_only_an_operator_can_heal_is_told_once_and_tried_slowly(
    error: Errors, remedy: str
) -> None:
    bench = Bench(9, voters=VoterSet(), bootstrap=(Node(-2, "there", 9093), Node(-3, "::1", 9093)))
    bench.start()
    assert refuse_all(bench, 60, ErrorResponse(error)) <= 2 * 13
    told = reports(bench)
    assert len(told) == 2
    assert {text.split()[1] for text in told} == {"there:9093", "[::1]:9093"}
    assert all(error.name in text and remedy in text for text in told)
    assert bench.machine.trouble in told


def test_any_other_refusal_is_told_once_until_there_is_an_answer_of_use() -> None:
    bench = Bench.following()
    refuse_all(bench, 1, refusal(Errors.UNKNOWN_SERVER_ERROR))
    assert len(reports(bench)) == 1
    assert "1 (" in reports(bench)[0]
    bench.answer(last_fetch(bench), records())
    bench.answer(last_fetch(bench), refusal(Errors.UNKNOWN_SERVER_ERROR))
    assert len(reports(bench)) == 2


def test_a_fetch_finds_a_newer_leader() -> None:
    bench = Bench.following()
    bench.answer(last_fetch(bench), refusal(Errors.FENCED_LEADER_EPOCH, epoch=8, leader_id=2))
    assert bench.machine.election == ElectionState(8, 2)
    bench.answer(last_fetch(bench), refusal(Errors.FENCED_LEADER_EPOCH, epoch=9, leader_id=None))
    assert bench.machine.election == ElectionState(9)


def test_a_late_answer_is_not_appended() -> None:
    bench = Bench.following()
    late = last_fetch(bench)
    bench.advance(1999)
    bench.now_ms = 2000
    assert bench.answer(late, records(batch(0, 3, 1))) != []
    assert bench.log.end() == OffsetAndEpoch(0, 0)


# --- snapshots


def piece(
    position: int, data: bytes, size: int = 8, snapshot_id: OffsetAndEpoch | None = None
) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(
        Errors.NONE, 1, 3, (address(1),), snapshot_id or end(20, 2), size, position, data
    )


def downloading() -> Bench:
    bench = Bench.following(batches=(batch(0, 1, 1, 2),))
    effects = bench.answer(last_fetch(bench), records().replace(snapshot_id=end(20, 2)))
    assert effects[0] == BeginSnapshot(end(20, 2))
    return bench


def last_piece(bench: Bench) -> SendRequest:
    return bench.sent(FetchSnapshotRequest)[-1][0]


def test_a_snapshot_is_fetched_piece_by_piece_and_installed() -> None:
    bench = downloading()
    effects = bench.answer(last_piece(bench), piece(0, b"abcde"))
    assert effects[0] == AppendToSnapshot(end(20, 2), 0, b"abcde")
    request = last_piece(bench).request
    assert isinstance(request, FetchSnapshotRequest)
    assert request.position == 5
    effects = bench.answer(last_piece(bench), piece(5, b"fgh"))
    assert effects[:3] == [
        AppendToSnapshot(end(20, 2), 5, b"fgh"),
        InstallSnapshot(1, end(20, 2)),
        HighWatermarkAdvanced(20),
    ]
    fetch = last_fetch(bench).request
    assert isinstance(fetch, FetchRequest)
    assert (fetch.fetch_offset, fetch.last_fetched_epoch) == (20, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        piece(1, b"abc"),
        piece(0, b""),
        piece(0, b"too much of it"),
        piece(0, b"abc", snapshot_id=end(30, 2)),
        piece(0, b"abc").replace(error=Errors.POSITION_OUT_OF_RANGE),
    ],
)
def test_a_wrong_piece_ends_the_download(wrong: FetchSnapshotResponse) -> None:
    bench = downloading()
    effects = bench.answer(last_piece(bench), wrong)
    assert isinstance(effects[0], Report)
    assert effects[1] == DiscardSnapshot(end(20, 2))
    bench.forget()
    bench.advance(20)
    assert len(bench.sent(FetchRequest)) == 1


def test_a_snapshot_that_is_gone_is_asked_for_anew() -> None:
    bench = downloading()
    gone = FetchSnapshotResponse(Errors.SNAPSHOT_NOT_FOUND, 1, 3, (address(1),))
    send = last_piece(bench)
    bench.forget()
    effects = bench.answer(send, gone)
    assert effects[0] == DiscardSnapshot(end(20, 2))
    assert len(bench.sent(FetchRequest)) == 1


def test_a_snapshot_behind_the_log_is_not_wanted() -> None:
    bench = Bench.following(batches=(batch(0, 2, *range(30)),))
    effects = bench.answer(last_fetch(bench), records().replace(snapshot_id=end(20, 2)))
    assert [type(effect) for effect in effects] == [Report]


def test_a_snapshot_below_the_high_watermark_is_a_fault() -> None:
    bench = Bench.following(batches=(batch(0, 2, *range(30)),))
    bench.answer(last_fetch(bench), records(high_watermark=30))
    with pytest.raises(QuorumError, match="below the high watermark"):
        bench.answer(last_fetch(bench), records().replace(snapshot_id=end(20, 3)))


def test_a_new_leader_ends_the_download() -> None:
    bench = downloading()
    effects = bench.answer(last_piece(bench), piece(0, b"abc").replace(leader_id=2, leader_epoch=4))
    assert DiscardSnapshot(end(20, 2)) in effects
    assert bench.machine.leader_id == 2


def installing() -> tuple[Bench, VoterSet]:
    """One that was the only voter once, by its settings, and gets a snapshot of a quorum of three
    that its log names; nothing of it is on disk yet.
    """
    three = VoterSet.of(VoterNode(key(each), (address(each),), KRAFT_VERSIONS) for each in range(3))
    bench = Bench(
        voters=1, election=ElectionState(3, 1), batches=(batch(0, 1, 1, 2),), kraft_version=1
    )
    bench.is_flushing = False
    bench.machine._replica.voters.append(1, three)
    bench.start()
    bench.answer(last_fetch(bench), records().replace(snapshot_id=end(20, 2)))
    effects = bench.answer(last_piece(bench), piece(0, b"abcdefgh"))
    assert InstallSnapshot(1, end(20, 2)) in effects
    return bench, three


def test_nobody_stands_while_a_snapshot_with_its_voters_is_installed() -> None:
    """The voters of the settings do not count any more; alone it would lead beside the others."""
    bench, three = installing()
    bench.ask(EndQuorumEpochRequest(CLUSTER_ID, 1, 3, (address(1),), (key(0),)))
    bench.advance(5000)
    assert bench.is_in(Follower)
    bench.handle(VoterSetRead(19, three))
    # Now it may, and needs another one's vote once the snapshot is on disk.
    assert bench.is_in(Prospective)
    assert not bench.sent(VoteRequest)
    bench.handle(LogWritten(1, 20))
    assert {send.node.id for send, _ in bench.sent(VoteRequest)} == {1, 2}


def test_voters_count_until_those_of_a_snapshot_do() -> None:
    """A snapshot of this replica's own, which ends before, may be written meanwhile."""
    bench, three = installing()
    assert bench.machine.voter_set == three
    two = VoterSet(three.voters[1:])
    bench.handle(VoterSetRead(19, two))
    assert bench.machine.voter_set == two
    bench.handle(LogWritten(1, 20))
    assert bench.machine.voter_set == two


def test_a_snapshot_without_voters_leaves_those_of_the_settings() -> None:
    bench, _ = installing()
    bench.handle(LogWritten(1, 20))
    assert bench.machine.voter_set == bench.voters


# --- the log and the voter set


def test_only_open_writes_can_be_reported() -> None:
    bench = Bench.leading(is_flushing=False)
    for write_id in (0, 2):
        with pytest.raises(QuorumError, match=f"log write {write_id} was reported"):
            bench.handle(LogWritten(write_id, 1))
    bench.handle(LogWritten(1, 1))
    with pytest.raises(QuorumError, match="writes 2 to 1 are open"):
        bench.handle(LogWritten(1, 1))


def test_a_voter_set_is_in_force_when_it_is_appended() -> None:
    def voter(node_id: int) -> VoterNode:
        return VoterNode(ReplicaKey(node_id, uuid((node_id + 1) << 64)), (address(node_id),))

    bench = Bench.leading(voters=1)
    assert bench.machine.high_watermark == 1
    bench.handle(VoterSetRead(1, VoterSet.of((voter(0), voter(1)))))
    assert bench.machine.voter_set.ids() == (0, 1)
    # With two voters the next record is not committed by one; with one again, it is.
    bench.handle(Append(1, 1, (7,)))
    assert bench.machine.high_watermark == 1
    effects = bench.handle(VoterSetRead(2, VoterSet.of((voter(0),))))
    assert effects == [HighWatermarkAdvanced(2)]
    assert bench.machine.voter_set.ids() == (0,)


def test_an_observer_that_becomes_a_voter_may_stand() -> None:
    bench = Bench(node_id=3, voters=3)
    bench.start()
    bench.ask(VoteRequest(None, None, key(1), 2, 0, 0, False))
    assert bench.is_in(Unattached)
    grown = VoterSet.of((*bench.voters.voters, VoterNode(key(3), (address(3),))))
    bench.handle(VoterSetRead(0, grown))
    bench.advance(1000)
    assert bench.is_in(Prospective)
