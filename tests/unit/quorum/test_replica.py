from __future__ import annotations

import pytest

from kaa import limits
from kaa.quorum import (
    BeginQuorumEpochRequest,
    ElectionState,
    FetchRequest,
    FetchResponse,
    HighWatermarkAdvanced,
    LeaderChanged,
    PersistElection,
    QuorumConfig,
    QuorumError,
    Respond,
    VoteRequest,
)
from kaa.quorum.states import Candidate, Follower, Prospective, Resigned, Unattached
from kaa.wire.errors import Errors
from tests.simulation.quorum.node import CLUSTER_ID, address
from tests.unit.quorum.bench import Bench, batch, key


def started(election: ElectionState | None, **settings: object) -> Bench:
    bench = Bench(election=election, **settings)  # type: ignore[arg-type]
    bench.start()
    return bench


@pytest.mark.parametrize(
    ("election", "state"),
    [
        (None, Unattached),
        (ElectionState(4), Unattached),
        (ElectionState(4, None, key(1)), Unattached),
        (ElectionState(4, None, key(0)), Candidate),
        (ElectionState(4, 0), Resigned),
        (ElectionState(4, 1), Follower),
        (ElectionState(4, 1, key(0)), Follower),
        # A leader that is not a voter any more has no address here.
        (ElectionState(4, 9), Unattached),
    ],
)
def test_where_a_replica_goes_on(election: ElectionState | None, state: type) -> None:
    bench = started(election)
    assert type(bench.machine.state) is state
    assert bench.machine.election == (election or ElectionState())


def test_the_state_goes_to_disk_only_if_it_is_news() -> None:
    assert started(None).effects[0] == PersistElection(ElectionState())
    bench = started(ElectionState(4, 1))
    assert not any(isinstance(effect, PersistElection) for effect in bench.effects)


def test_nobody_stands_after_the_last_epoch() -> None:
    bench = started(ElectionState(limits.QUORUM_EPOCHS_MAX - 1), voters=1)
    assert bench.machine.is_leader
    with pytest.raises(QuorumError, match="there is no epoch after 2147483645"):
        started(ElectionState(limits.QUORUM_EPOCHS_MAX), voters=1)


def test_an_election_older_than_the_log_is_void() -> None:
    bench = started(ElectionState(2, None, key(1)), batches=(batch(0, 5, 1),))
    assert bench.machine.election == ElectionState(5)
    assert bench.machine.epoch == 5


def test_elections_of_one_event_share_a_write() -> None:
    bench = Bench(voters=1)
    writes = [effect for effect in bench.start() if isinstance(effect, PersistElection)]
    assert writes == [PersistElection(ElectionState(1, 0))]


def test_a_write_that_a_message_relied_on_stays() -> None:
    bench = started(ElectionState(4, 1))
    effects = bench.ask(VoteRequest(CLUSTER_ID, None, key(2), 5, 0, 0, False))
    assert effects[0] == LeaderChanged(5, None)
    assert effects[1] == PersistElection(ElectionState(5, None, key(2)))
    assert isinstance(effects[2], Respond)


def test_a_leader_is_announced_once() -> None:
    bench = started(None)
    request = BeginQuorumEpochRequest(CLUSTER_ID, None, 1, 5, (address(1),))
    for _ in range(2):
        bench.ask(request)
    announced = [effect for effect in bench.effects if isinstance(effect, LeaderChanged)]
    assert announced == [LeaderChanged(5, 1)]


def test_a_former_leader_does_not_announce_itself_after_a_restart() -> None:
    bench = Bench(voters=1, election=ElectionState(4, 0))
    announced = [effect for effect in bench.start() if isinstance(effect, LeaderChanged)]
    assert announced == [LeaderChanged(5, None), LeaderChanged(5, 0, 0)]


def test_election_timeouts_are_drawn_between_one_and_two() -> None:
    bench = Bench(config=QuorumConfig(election_timeout_ms=300))
    bench.start()
    assert bench.machine.next_deadline_ms == 300


def test_a_lost_leadership_answers_the_fetches_it_held() -> None:
    bench = Bench.leading()
    fetch = FetchRequest(CLUSTER_ID, key(1), 1, 1, 1, -1, 500, 1 << 20)
    assert bench.ask(fetch)[0] == HighWatermarkAdvanced(1)
    bench.ask(fetch.replace(high_watermark=1))
    effects = bench.ask(BeginQuorumEpochRequest(CLUSTER_ID, None, 2, 9, (address(2),)))
    responses = [effect.response for effect in effects if isinstance(effect, Respond)]
    assert isinstance(responses[0], FetchResponse)
    assert (responses[0].error, responses[0].leader_id) == (Errors.NOT_LEADER_OR_FOLLOWER, 2)
    assert effects.index(PersistElection(ElectionState(9, 2))) < effects.index(
        Respond(2, responses[0])
    )


def test_the_story_ends_with_the_last_transition() -> None:
    bench = started(ElectionState(4, 1))
    bench.advance(2000)
    assert bench.is_in(Prospective)
    assert bench.machine.story == (
        "0 ms: start -> Follower(4), leader 1, voted None",
        "2000 ms: Follower(4) -> Prospective(4), leader 1, voted None",
    )


def test_a_replica_starts_once() -> None:
    bench = started(None)
    with pytest.raises(QuorumError, match="started twice"):
        bench.start()
