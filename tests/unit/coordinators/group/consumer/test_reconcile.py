"""One step of one member, for each of its states."""

from __future__ import annotations

import pytest

from kaa.coordinators.group.assignors.table import Assignment
from kaa.coordinators.group.consumer import reconcile as steps
from kaa.coordinators.group.consumer.member import ConsumerMember, MemberState
from kaa.coordinators.group.consumer.reconcile import MemberTarget, Reported, Situation
from kaa.coordinators.machine import CoordinatorError
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.primitives import Uuid

T, U = Uuid(b"t" * 16), Uuid(b"u" * 16)
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState


def at(
    target: Assignment,
    *,
    epoch: int = 6,
    owners: set[tuple[Uuid, int]] | None = None,
    topics: tuple[Uuid, ...] = (T, U),
    changed: bool = False,
    reported: Reported = None,
) -> Situation:
    by_topic: dict[Uuid, set[int]] = {}
    for topic_id, number in owners or ():
        by_topic.setdefault(topic_id, set()).add(number)
    return Situation(MemberTarget(epoch, target), by_topic, topics, changed, reported)


def reconcile(member: ConsumerMember, situation: Situation) -> ConsumerMember:
    return finish(steps.reconcile(member, situation))


MEMBER = ConsumerMember("m", 5, 4, assigned={T: {0: 3, 1: 5}})


def test_nothing_new() -> None:
    same = ConsumerMember("m", 6, 5, assigned={T: {0: 3}})
    assert reconcile(same, at({T: frozenset({0})})) is same


def test_free_partitions_are_added_at_once() -> None:
    found = reconcile(MEMBER, at({T: frozenset({0, 1, 2})}))
    assert (found.member_epoch, found.previous_member_epoch, found.state) == (6, 5, STABLE)
    assert found.assigned == {T: {0: 3, 1: 5, 2: 6}}


def test_others_have_to_release_first() -> None:
    found = reconcile(MEMBER, at({T: frozenset({0, 1, 2, 3})}, owners={(T, 2)}))
    assert (found.member_epoch, found.state) == (6, UNRELEASED)
    assert found.assigned == {T: {0: 3, 1: 5, 3: 6}}
    still = reconcile(found, at({T: frozenset({0, 1, 2, 3})}, owners={(T, 2), (T, 3)}))
    assert still.state is UNRELEASED
    done = reconcile(still, at({T: frozenset({0, 1, 2, 3})}, owners={(T, 3)}))
    assert (done.state, done.assigned[T][2]) == (STABLE, 6)


def test_partitions_are_given_up_first() -> None:
    target = at({T: frozenset({0}), U: frozenset({0})})
    found = reconcile(MEMBER, target)
    assert (found.member_epoch, found.state) == (5, UNREVOKED)
    assert (found.assigned, found.pending_revocation) == ({T: {0: 3}}, {T: {1: 5}})
    # As long as the member may have it, nothing goes on.
    assert reconcile(found, target) is found
    assert reconcile(found, target._replace(reported={T: [0, 1]})) is found
    done = reconcile(found, target._replace(reported={T: [0]}))
    assert (done.member_epoch, done.state) == (6, STABLE)
    assert (done.assigned, done.pending_revocation) == ({T: {0: 3}, U: {0: 6}}, {})


def test_a_member_that_has_given_up_already() -> None:
    found = reconcile(MEMBER, at({T: frozenset({0})}, reported={T: [0]}))
    assert (found.member_epoch, found.assigned) == (6, {T: {0: 3}})


def test_what_was_to_be_given_up_may_come_back() -> None:
    member = MEMBER._replace(state=UNREVOKED, assigned={T: {0: 3}}, pending_revocation={T: {1: 5}})
    situation = at({T: frozenset({0, 1})}, owners={(T, 0), (T, 1)}, reported={T: [0]})
    assert reconcile(member, situation).assigned == {T: {0: 3, 1: 6}}


class TestSubscriptions:
    def test_topics_that_are_left_are_taken_away(self) -> None:
        member = ConsumerMember("m", 6, 5, assigned={T: {0: 3}, U: {0: 3}})
        target = {T: frozenset({0}), U: frozenset({0})}
        situation = at(target, topics=(U,), changed=True)
        found = reconcile(member, situation)
        assert (found.state, found.assigned) == (UNREVOKED, {U: {0: 3}})
        assert found.pending_revocation == {T: {0: 3}}
        gone = reconcile(member, situation._replace(reported={U: [0]}))
        assert (gone.state, gone.assigned) == (STABLE, {U: {0: 3}})
        assert reconcile(member, situation._replace(topic_ids=(T, U))) is member

    def test_while_others_are_given_up(self) -> None:
        member = MEMBER._replace(
            state=UNREVOKED, assigned={T: {0: 3}, U: {1: 3}}, pending_revocation={T: {1: 5}}
        )
        found = reconcile(member, at({}, topics=(U,), changed=True))
        assert found.pending_revocation == {T: {0: 3, 1: 5}}
        assert found.assigned == {U: {1: 3}}

    def test_the_target_may_be_behind(self) -> None:
        found = reconcile(MEMBER, at({T: frozenset({0, 1})}, topics=(U,), reported={}))
        assert (found.member_epoch, found.assigned) == (6, {})


class TestUnknown:
    def test_it_has_to_begin_again(self) -> None:
        member = MEMBER._replace(state=UNKNOWN)
        for reported in (None, {T: [0]}):
            with pytest.raises(CoordinatorError) as refused:
                reconcile(member, at({}, reported=reported))
            assert refused.value.error is Errors.FENCED_MEMBER_EPOCH

    def test_with_nothing_in_its_hands(self) -> None:
        member = MEMBER._replace(state=UNKNOWN)
        found = reconcile(member, at({T: frozenset({0})}, reported={}))
        assert (found.member_epoch, found.state, found.assigned) == (6, STABLE, {T: {0: 3}})
