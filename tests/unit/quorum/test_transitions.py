from __future__ import annotations

from itertools import product

import pytest

from kaa.quorum.leader import Leader
from kaa.quorum.states import Candidate, Follower, Prospective, Resigned, State, Unattached
from kaa.quorum.transitions import (
    LEGAL_TRANSITIONS,
    EpochStep,
    IllegalTransitionError,
    QuorumError,
    check_transition,
)
from tests.simulation.quorum.node import static_voters
from tests.unit.quorum.bench import key
from tests.unit.quorum.test_states import ENDPOINTS, ballot

STATES = (Unattached, Prospective, Candidate, Leader, Follower, Resigned)


def state_of(kind: type, epoch: int) -> State:
    states: dict[type, State] = {
        Unattached: Unattached(epoch, None, None, 0, None),
        Prospective: Prospective(epoch, None, (), None, ballot(), 0, None),
        Candidate: Candidate(epoch, key(0), ballot(), 0, None),
        Leader: Leader(epoch, 0, key(0), (), static_voters(3), 0, 0),
        Follower: Follower(epoch, 1, ENDPOINTS, None, 0, None),
        Resigned: Resigned(epoch, 0, (), set(), (), 0),
    }
    return states[kind]


def is_legal(old: State, new: State) -> bool:
    try:
        check_transition(old, new, ())
    except IllegalTransitionError:
        return False
    return True


@pytest.mark.parametrize(("old", "new"), list(product(STATES, STATES)))
def test_the_table_decides(old: type, new: type) -> None:
    legal = {epoch for epoch in (3, 4, 5, 7) if is_legal(state_of(old, 4), state_of(new, epoch))}
    step = LEGAL_TRANSITIONS.get((old, new))
    allowed = {epoch for epoch in (3, 4, 5, 7) if step is not None and step.allows(4, epoch)}
    # Within an epoch a leader stays known and a vote stays given, so these states, bare, clash.
    forgetful = {
        (Candidate, Prospective),
        (Candidate, Follower),
        (Follower, Prospective),
        (Resigned, Prospective),
    }
    assert legal == (allowed - {4} if (old, new) in forgetful else allowed)


def test_steps_of_the_epoch() -> None:
    allowed = {step: [new for new in (3, 4, 5, 6) if step.allows(4, new)] for step in EpochStep}
    assert allowed == {
        EpochStep.SAME: [4],
        EpochStep.SAME_OR_HIGHER: [4, 5, 6],
        EpochStep.HIGHER: [5, 6],
        EpochStep.NEXT: [5],
    }


def test_an_illegal_transition_tells_the_story() -> None:
    with pytest.raises(IllegalTransitionError) as caught:
        check_transition(state_of(Follower, 4), state_of(Leader, 4), ["first", "then"])
    assert caught.value.story == ("first", "then")
    assert str(caught.value) == "Follower(4) -> Leader(4) is not a transition\n  first\n  then"
    assert isinstance(caught.value, QuorumError)


def test_the_leader_of_an_epoch_does_not_change() -> None:
    old = Follower(4, 1, ENDPOINTS, None, 0, None)
    with pytest.raises(IllegalTransitionError, match="leader of the epoch was 1, not 2"):
        check_transition(old, Follower(4, 2, ENDPOINTS, None, 0, None), ())
    check_transition(old, Follower(5, 2, ENDPOINTS, None, 0, None), ())


def test_a_vote_is_not_forgotten_within_its_epoch() -> None:
    old = Unattached(4, None, key(1), 0, None)
    with pytest.raises(IllegalTransitionError, match="vote for"):
        check_transition(old, Follower(4, 1, ENDPOINTS, None, 0, None), ())
    check_transition(old, Follower(4, 1, ENDPOINTS, key(1), 0, None), ())
    check_transition(old, Unattached(5, None, None, 0, None), ())


def test_every_state_can_be_left_and_all_but_one_entered_from_others() -> None:
    assert {old for old, _ in LEGAL_TRANSITIONS} == set(STATES)
    assert {new for old, new in LEGAL_TRANSITIONS if old is not new} == set(STATES)
