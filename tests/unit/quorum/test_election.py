from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kaa.quorum.election import Ballot, ElectionState


def test_a_nominee_votes_for_itself() -> None:
    ballot = Ballot((1, 2, 3), 2)
    assert ballot.granted_by() == (2,)
    assert ballot.open() == (1, 3)
    assert not ballot.is_won
    assert not ballot.is_lost


def test_one_voter_wins_at_once() -> None:
    assert Ballot((4,), 4).is_won


def test_answers_of_others_count_nothing() -> None:
    ballot = Ballot((1, 2, 3), 1)
    ballot.record(9, True)
    assert ballot.granted_by() == (1,)


def test_a_nominee_that_does_not_vote_needs_a_majority_of_the_others() -> None:
    ballot = Ballot((1, 2), 3)
    assert not ballot.granted_by()
    ballot.record(1, True)
    assert not ballot.is_won
    ballot.record(2, True)
    assert ballot.is_won


@given(st.integers(1, 9), st.lists(st.tuples(st.integers(0, 9), st.booleans())))
def test_the_result_is_that_of_counting(voters: int, answers: list[tuple[int, bool]]) -> None:
    ballot = Ballot(range(voters), 0)
    votes = {0: True}
    for voter, granted in answers:
        if 0 < voter < voters:
            ballot.record(voter, granted)
            votes[voter] = granted
    granted_count = sum(votes.values())
    refused_count = len(votes) - granted_count
    assert ballot.is_won == (granted_count > voters / 2)
    assert ballot.is_lost == (voters - refused_count <= voters / 2)
    assert not (ballot.is_won and ballot.is_lost)
    assert f"rejected={ballot.rejected_by()}" in repr(ballot)


def test_the_state_before_any_election() -> None:
    assert ElectionState() == ElectionState(0, None, None)
