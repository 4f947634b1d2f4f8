from __future__ import annotations

import pytest

from kaa.quorum import (
    Append,
    BeginQuorumEpochRequest,
    ElectionState,
    EndQuorumEpochRequest,
    ErrorResponse,
    FetchRequest,
    FetchResponse,
    LogWritten,
    Node,
    QuorumConfig,
    Report,
    Resign,
    Shutdown,
    Stopped,
    Tick,
    VoteRequest,
    VoterNode,
    VoterSet,
    VoterSetRead,
)
from kaa.quorum.duties import earliest
from kaa.quorum.states import Candidate, Follower, Prospective, Resigned, Unattached
from kaa.wire.errors import Errors
from tests.simulation.quorum.node import CLUSTER_ID, address
from tests.unit.quorum.bench import Bench, batch, key
from tests.unit.quorum.test_serving import fetch


def test_the_earliest_of_some_times() -> None:
    assert earliest(None, 5, 3) == 3
    assert earliest(None, None) is None
    assert earliest() is None


# --- a leader that was removed


def removed() -> Bench:
    """Of two voters, the replica that wrote its own removal and has restarted since."""
    bench = Bench(voters=2, batches=(batch(0, 1, 1, 2, 3),), election=ElectionState(1, 0))
    bench.start()
    bench.handle(VoterSetRead(0, bench.voters))
    bench.handle(VoterSetRead(2, VoterSet(bench.voters.voters[1:])))
    bench.advance(1000)
    bench.forget()
    bench.advance(2000)
    return bench


def test_a_removed_replica_stands_until_its_removal_is_committed() -> None:
    bench = removed()
    assert {send.node.id for send, _ in bench.sent(VoteRequest)} == {1}
    # Its own vote does not count: the other one is asked, in both rounds.
    assert bench.is_in(Prospective)
    bench.grant_votes()
    assert bench.machine.is_leader
    bench.ask(fetch(1, offset=3, epoch=3, last_epoch=1))
    assert bench.machine.high_watermark is None
    bench.ask(fetch(1, offset=4, epoch=3, last_epoch=3))
    assert bench.is_in(Resigned)
    bench.forget()
    bench.advance(100_000)
    assert bench.is_in(Unattached)
    assert not bench.sent(VoteRequest)


def test_a_removed_replica_that_leads_gives_up_without_the_others() -> None:
    bench = removed()
    bench.grant_votes()
    bench.forget()
    bench.advance(2999)
    assert bench.sent(BeginQuorumEpochRequest)
    bench.advance(1)
    assert bench.is_in(Resigned)


# --- looking for a leader


def reports(bench: Bench) -> list[str]:
    return [effect.message for effect in bench.effects if isinstance(effect, Report)]


def test_an_observer_asks_the_voters_of_its_log_too() -> None:
    """Whom its settings name may have lost their votes: then they know of no leader either."""
    bench = Bench(9, bootstrap=(Node(-2, "removed", 9093),))
    bench.start()
    asked = 0
    for _ in range(10):
        for send, _ in bench.sent(FetchRequest)[asked:]:
            asked += 1
            bench.answer(send, ErrorResponse(Errors.BROKER_NOT_AVAILABLE))
        bench.advance(5)
    assert {send.node.id for send, _ in bench.sent(FetchRequest)} == {-2, 0, 1, 2}


def test_a_voter_finds_the_others_by_its_elections() -> None:
    bench = Bench(bootstrap=(Node(-2, "other", 9093),))
    bench.start()
    bench.advance(900)
    assert {send.node.id for send, _ in bench.sent(FetchRequest)} == {-2}


def test_an_observer_without_a_leader_says_so_once() -> None:
    bench = Bench(9, voters=VoterSet(), bootstrap=(Node(-2, "gone", 9093),))
    bench.start()
    bench.advance(14_000)
    assert not reports(bench)
    bench.advance(100_000)
    (told,) = reports(bench)
    assert "gone:9093" in told
    assert "controller.quorum.bootstrap.servers" in told


def test_a_voter_without_a_leader_says_so_once_and_when_it_is_over() -> None:
    bench = Bench()
    bench.start()
    bench.advance(100_000)
    (told,) = reports(bench)
    assert "2 of the controllers 0, 1, 2 must run" in told
    assert bench.machine.trouble == told
    bench.ask(
        BeginQuorumEpochRequest(CLUSTER_ID, key(0), 1, bench.machine.epoch + 1, (address(1),))
    )
    ((send, _),) = bench.sent(FetchRequest)
    bench.answer(send, FetchResponse(Errors.NONE, 1, bench.machine.epoch, (address(1),), None, 0))
    assert reports(bench)[1:] == ["the leader of the quorum is 1, and answers"]
    assert bench.machine.trouble is None


# --- leader


def test_a_new_leader_tells_every_voter_and_again_who_does_not_fetch() -> None:
    bench = Bench.leading()
    told = [(send.node.id, request.voter) for send, request in bench.sent(BeginQuorumEpochRequest)]
    assert told == [(1, bench.voters.voters[1].key), (2, bench.voters.voters[2].key)]
    for send, _ in bench.sent(BeginQuorumEpochRequest):
        bench.answer(send, ErrorResponse(Errors.BROKER_NOT_AVAILABLE))
    bench.forget()
    bench.advance(500)
    bench.ask(fetch(1, offset=1, last_epoch=1))
    bench.advance(500)
    assert [send.node.id for send, _ in bench.sent(BeginQuorumEpochRequest)] == [2]


def test_a_leader_without_a_majority_resigns_and_says_so() -> None:
    bench = Bench.leading()
    bench.advance(2999)
    assert bench.machine.is_leader
    effects = bench.advance(1)
    assert bench.is_in(Resigned)
    assert any(isinstance(effect, Report) for effect in effects)
    assert [send.node.id for send, _ in bench.sent(EndQuorumEpochRequest)] == [1, 2]


def test_one_follower_of_two_keeps_the_leader_in_office() -> None:
    bench = Bench.leading()
    for _ in range(5):
        bench.advance(2500)
        bench.ask(fetch(2, offset=1, last_epoch=1))
    assert bench.machine.is_leader


def test_the_only_voter_needs_nobody() -> None:
    bench = Bench.leading(voters=1)
    bench.advance(1_000_000)
    assert bench.machine.is_leader
    assert bench.machine.next_deadline_ms is None


def test_a_tick_lets_followers_have_records_that_are_still_being_flushed() -> None:
    bench = Bench.leading()
    bench.is_flushing = False
    bench.ask(fetch(1, offset=1, last_epoch=1))
    bench.ask(fetch(1, offset=1, last_epoch=1, high_watermark=1))
    bench.handle(Append(1, 1, (5,)))
    assert len(bench.handle(Tick())) == 1
    bench.ask(fetch(1, offset=2, last_epoch=1, high_watermark=1))
    # One disk of three is not a majority, two are.
    assert bench.machine.high_watermark == 1
    bench.handle(LogWritten(2, 2))
    assert bench.machine.high_watermark == 2


def test_a_leader_that_gives_up_names_its_successors() -> None:
    bench = Bench.leading()
    bench.ask(fetch(2, offset=1, last_epoch=1))
    bench.handle(Resign(0))
    assert bench.machine.is_leader
    bench.forget()
    bench.handle(Resign(1))
    assert bench.is_in(Resigned)
    _, request = bench.sent(EndQuorumEpochRequest)[0]
    assert [candidate.id for candidate in request.preferred_candidates] == [2, 1]


def test_a_resigned_leader_opens_the_next_epoch_to_others() -> None:
    bench = Bench(election=ElectionState(4, 0))
    bench.start()
    bench.advance(1000)
    assert bench.is_in(Prospective)
    assert bench.machine.election == ElectionState(5)


# --- elections


def test_a_candidate_asks_the_voters_it_has_no_answer_of() -> None:
    bench = Bench(election=ElectionState(4, None, key(0)), batches=(batch(0, 2, 1),))
    bench.start()
    assert bench.is_in(Candidate)
    requests = [(send.node.id, request) for send, request in bench.sent(VoteRequest)]
    assert requests == [
        (node_id, VoteRequest(CLUSTER_ID, voter.key, key(0), 4, 2, 1, False))
        for node_id, voter in enumerate(bench.voters.voters)
        if node_id
    ]


def test_a_nominee_waits_for_its_disk() -> None:
    bench = Bench.leading(is_flushing=False)
    bench.advance(3000)
    bench.forget()
    bench.advance(2000)
    assert bench.is_in(Prospective)
    assert bench.sent(VoteRequest) == []
    bench.handle(LogWritten(1, 1))
    assert [send.node.id for send, _ in bench.sent(VoteRequest)] == [1, 2]


def test_a_pre_vote_without_answers_ends_with_the_election_timeout() -> None:
    bench = Bench()
    bench.start()
    bench.advance(1000)
    assert bench.is_in(Prospective)
    bench.advance(1000)
    # The timeout of the election goes on, so it stands again at once.
    assert bench.is_in(Prospective)
    assert bench.machine.epoch == 0


def test_a_machine_with_timeouts_of_nothing_still_comes_to_rest() -> None:
    config = QuorumConfig(election_timeout_ms=0, fetch_timeout_ms=0)
    bench = Bench(config=config)
    bench.start()
    assert bench.machine.next_deadline_ms == 0
    Bench.leading(voters=1, config=config)


# --- following


def test_a_voter_without_leader_waits_one_election_timeout() -> None:
    bench = Bench()
    bench.start()
    bench.advance(999)
    assert bench.is_in(Unattached)
    bench.advance(1)
    assert bench.is_in(Prospective)


def test_an_observer_never_stands() -> None:
    bench = Bench(node_id=7)
    bench.start()
    bench.advance(100_000)
    assert bench.is_in(Unattached)
    bench = Bench.following(node_id=7)
    bench.advance(100_000)
    assert bench.is_in(Follower)


def test_a_follower_asks_its_leader_again_after_a_timeout() -> None:
    bench = Bench.following(config=QuorumConfig(request_timeout_ms=300))
    bench.forget()
    bench.advance(300)
    assert [send.node.id for send, _ in bench.sent(FetchRequest)] == [1]


def test_a_follower_of_a_leader_without_usable_address_stands_in_the_end() -> None:
    voters = VoterSet.of(
        VoterNode(key(node_id), (address(node_id)._replace(listener="OTHER"),))
        for node_id in range(3)
    )
    bench = Bench(voters=voters, election=ElectionState(3, 1))
    bench.start()
    assert bench.sent(FetchRequest) == []
    bench.advance(2000)
    assert bench.is_in(Prospective)
    assert bench.sent(VoteRequest) == []


# --- shutdown


@pytest.mark.parametrize(
    "bench", [Bench.following(), Bench.leading(voters=1), Bench.following(node_id=7)]
)
def test_a_replica_that_nobody_needs_stops_at_once(bench: Bench) -> None:
    assert bench.handle(Shutdown(5000)) == [Stopped(clean=True)]
    assert bench.machine.is_stopped
    assert bench.machine.next_deadline_ms is None
    assert bench.handle(Tick()) == []


def test_a_leader_hands_over_before_it_stops() -> None:
    bench = Bench.leading()
    bench.handle(Shutdown(5000))
    assert bench.is_in(Resigned)
    effects = bench.ask(BeginQuorumEpochRequest(CLUSTER_ID, None, 1, 2, (address(1),)))
    assert effects[-1] == Stopped(clean=True)


@pytest.mark.parametrize("time_ms", [0, 1000, 2000])
def test_a_stop_has_its_limit(time_ms: int) -> None:
    bench = Bench()
    bench.start()
    bench.advance(time_ms)
    if time_ms == 2000:
        bench.grant_votes()
        bench.handle(Resign(1))
    bench.handle(Shutdown(4000))
    bench.advance(3999)
    assert not bench.machine.is_stopped
    assert bench.advance(1)[-1] == Stopped(clean=False)


def test_a_candidate_that_stops_does_not_stand_again() -> None:
    bench = Bench(election=ElectionState(4, None, key(0)))
    bench.start()
    bench.handle(Shutdown(5000))
    bench.advance(4000)
    assert bench.is_in(Candidate)
