from __future__ import annotations

from collections.abc import Callable

import pytest

from kaa.model.nodes import Endpoint
from kaa.quorum.election import Ballot, ElectionState
from kaa.quorum.states import (
    Candidate,
    Follower,
    Prospective,
    Resigned,
    SnapshotDownload,
    State,
    Unattached,
)
from kaa.quorum.voters import ReplicaKey
from tests.unit.quorum.bench import end, key

ENDPOINTS = (Endpoint("A", "a", 1),)
LOCAL, ONE, TWO = key(0), key(1), key(2)


def ballot() -> Ballot:
    return Ballot((0, 1, 2), 0)


def unattached(leader_id: int | None = None, voted_key: ReplicaKey | None = None) -> Unattached:
    return Unattached(4, leader_id, voted_key, 100, None)


def prospective(leader_id: int | None = None, voted_key: ReplicaKey | None = None) -> Prospective:
    return Prospective(4, leader_id, (), voted_key, ballot(), 100, None)


def follower() -> Follower:
    return Follower(4, 1, ENDPOINTS, TWO, 100, None)


def candidate() -> Candidate:
    return Candidate(4, LOCAL, ballot(), 100, None)


def resigned() -> Resigned:
    return Resigned(4, 0, ENDPOINTS, {1, 2}, (), 100)


@pytest.mark.parametrize(
    ("state", "election"),
    [
        (unattached(), ElectionState(4)),
        (unattached(1, TWO), ElectionState(4, 1, TWO)),
        (prospective(1, TWO), ElectionState(4, 1, TWO)),
        (candidate(), ElectionState(4, None, LOCAL)),
        (follower(), ElectionState(4, 1, TWO)),
        (resigned(), ElectionState(4, 0)),
    ],
)
def test_what_must_be_on_disk(state: State, election: ElectionState) -> None:
    assert state.election == election


@pytest.mark.parametrize("make", [unattached, prospective])
def test_one_vote_per_epoch_for_a_log_that_is_not_behind(
    make: Callable[..., State],
) -> None:
    assert make().grants_vote(ONE, True, False)
    assert not make().grants_vote(ONE, False, False)
    assert not make(leader_id=2).grants_vote(ONE, True, False)
    assert not make(voted_key=TWO).grants_vote(ONE, True, False)
    # Asked again by the same one, the answer is the same, also if its log would not do any more.
    assert make(voted_key=ONE).grants_vote(ONE, False, False)
    assert make(voted_key=ReplicaKey(1)).grants_vote(ONE, True, False)
    assert not make(voted_key=ONE).grants_vote(ReplicaKey(1, TWO.directory_id), True, False)


@pytest.mark.parametrize("make", [unattached, prospective])
def test_a_pre_vote_binds_nobody(make: Callable[..., State]) -> None:
    assert make(leader_id=2, voted_key=TWO).grants_vote(ONE, True, True)
    assert not make().grants_vote(ONE, False, True)


@pytest.mark.parametrize("state", [candidate(), resigned(), follower()])
def test_who_has_decided_gives_no_vote_but_pre_votes(state: State) -> None:
    assert not state.grants_vote(ONE, True, False)
    assert state.grants_vote(ONE, True, True)
    assert not state.grants_vote(ONE, False, True)


def test_a_follower_that_hears_its_leader_refuses_pre_votes() -> None:
    state = follower()
    state.has_fetched = True
    assert not state.grants_vote(ONE, True, True)


def test_a_candidate_has_voted_for_itself() -> None:
    assert candidate().voted_key == LOCAL


def test_a_download_starts_at_the_start() -> None:
    assert SnapshotDownload(end(5, 2)).position == 0
