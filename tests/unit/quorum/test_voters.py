from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa import limits
from kaa.model.nodes import Endpoint, VersionRange
from kaa.quorum.voters import (
    Node,
    ReplicaKey,
    VoterNode,
    VoterSet,
    VoterSetHistory,
    are_too_many,
    named_endpoints,
    node_at,
    replica_key,
)
from kaa.wire.messages.k80_add_raft_voter import Listener
from kaa.wire.primitives import UUID_ZERO, Uuid
from tests.support.ids import uuid

ONE, TWO = uuid(1), uuid(2)


def voter(node_id: int, directory_id: Uuid | None = None) -> VoterNode:
    return VoterNode(ReplicaKey(node_id, directory_id))


def voters(*ids: int) -> VoterSet:
    return VoterSet.of(voter(node_id, uuid(node_id + 1)) for node_id in ids)


def test_a_key_without_directory_matches_every_directory() -> None:
    assert ReplicaKey(1).matches(ReplicaKey(1, ONE))
    assert ReplicaKey(1, ONE).matches(ReplicaKey(1, ONE))
    assert not ReplicaKey(1, ONE).matches(ReplicaKey(1, TWO))
    assert not ReplicaKey(1, ONE).matches(ReplicaKey(1))
    assert not ReplicaKey(1).matches(ReplicaKey(2))


def test_the_zero_id_is_a_directory_that_is_not_known() -> None:
    assert replica_key(3, ONE) == ReplicaKey(3, ONE)
    assert replica_key(3, UUID_ZERO) == ReplicaKey(3)


def test_a_node_is_found_by_listener() -> None:
    endpoints = (Endpoint("A", "a", 1), Endpoint("B", "b", 2))
    assert node_at(5, endpoints, "B") == Node(5, "b", 2)
    assert node_at(5, endpoints, "C") is None


def test_a_set_holds_each_id_once_in_order() -> None:
    assert VoterSet.of((voter(2), voter(1))).ids() == (1, 2)
    with pytest.raises(ValueError, match="same id"):
        VoterSet.of((voter(1, ONE), voter(1, TWO)))
    with pytest.raises(ValueError, match="at most"):
        VoterSet.of(voter(node_id) for node_id in range(limits.QUORUM_VOTERS_MAX + 1))


def test_membership() -> None:
    some = voters(1, 2)
    assert some.is_voter(ReplicaKey(1, uuid(2)))
    assert not some.is_voter(ReplicaKey(1, uuid(9)))
    assert not some.is_voter(ReplicaKey(3))
    assert voters(1).is_only_voter(ReplicaKey(1, uuid(2)))
    assert not some.is_only_voter(ReplicaKey(1, uuid(2)))
    assert some.get(3) is None
    assert some.endpoints(3) == ()


def test_add() -> None:
    assert voters(1).add(voter(2, uuid(3))) == voters(1, 2)
    assert voters(1).add(voter(1, TWO)) is None


def test_remove() -> None:
    assert voters(1, 2).remove(ReplicaKey(2, uuid(3))) == voters(1)
    assert voters(1, 2).remove(ReplicaKey(2, uuid(9))) is None
    assert voters(1).remove(ReplicaKey(1, uuid(2))) is None


def test_update() -> None:
    new = VoterNode(ReplicaKey(2, uuid(3)), (Endpoint("A", "a", 1),), VersionRange(0, 1))
    updated = voters(1, 2).update(new)
    assert updated is not None
    assert updated.get(2) == new
    assert updated.ids() == (1, 2)
    assert voters(1, 2).update(voter(2, uuid(9))) is None
    assert voters(1, 2).update(voter(3)) is None


@given(st.sets(st.integers(0, 6), min_size=1), st.sets(st.integers(0, 6), min_size=1))
def test_sets_that_may_follow_each_other_have_majorities_that_meet(
    one: set[int], other: set[int]
) -> None:
    first, second = voters(*one), voters(*other)
    if abs(len(one) - len(other)) <= 1 and first.has_overlapping_majority(second):
        if len(one ^ other) <= 1:
            assert all(
                set(majority) & set(counter)
                for majority in combinations(one, first.majority())
                for counter in combinations(other, second.majority())
            )
    else:
        assert len(one ^ other) > 1


def test_the_history_falls_back_to_the_static_voters() -> None:
    history = VoterSetHistory(voters(1, 2, 3))
    assert history.last() == voters(1, 2, 3)
    assert history.last_offset() is None
    assert history.at(100) == voters(1, 2, 3)
    assert VoterSetHistory().last() == VoterSet()


def test_the_history_knows_every_offset() -> None:
    history = VoterSetHistory()
    history.append(5, voters(1))
    history.append(9, voters(1, 2))
    assert [history.at(offset) for offset in (4, 5, 8, 9, 10)] == [
        VoterSet(),
        voters(1),
        voters(1),
        voters(1, 2),
        voters(1, 2),
    ]
    assert (history.last(), history.last_offset()) == (voters(1, 2), 9)


def test_the_history_grows_by_one_voter_at_a_time_upwards() -> None:
    history = VoterSetHistory()
    history.append(5, voters(1))
    with pytest.raises(ValueError, match="not above"):
        history.append(5, voters(1, 2))
    with pytest.raises(ValueError, match="more than one voter"):
        history.append(6, voters(1, 2, 3))


def test_voters_of_the_format_give_way_to_those_of_the_log() -> None:
    """Also to quite different ones, where a controller was formatted with an outdated list."""
    history = VoterSetHistory()
    history.append(-1, voters(1, 2, 3))
    history.append(1, voters(4, 5, 6))
    assert history.last() == voters(4, 5, 6)


def test_the_history_is_cut_with_the_log() -> None:
    history = VoterSetHistory()
    for offset, ids in ((5, (1,)), (9, (1, 2)), (12, (1, 2, 3))):
        history.append(offset, voters(*ids))
    history.truncate_to(12)
    assert history.last() == voters(1, 2)
    history.forget_before(10)
    assert history.at(10) == voters(1, 2)
    assert history.at(5) == VoterSet()
    history.clear()
    assert history.last() == VoterSet()


def test_of_very_many_listeners_only_so_many_are_read_that_they_can_be_refused() -> None:
    points = [Listener(name=f"L{number}", host="localhost", port=9093) for number in range(20_000)]
    read = named_endpoints(points)
    assert len(read) == limits.QUORUM_LISTENERS_MAX + 1
    assert are_too_many(read)
    assert not are_too_many(read[1:])
