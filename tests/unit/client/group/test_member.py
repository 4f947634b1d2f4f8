"""What members of both protocols do alike."""

from __future__ import annotations

import pytest

from kaa.client.errors import ClientError, DisconnectedError
from kaa.client.group.assignors import assignors_of
from kaa.client.group.classic_machine import ClassicMember, ClassicSettings
from kaa.client.group.consumer_machine import ConsumerMember, ConsumerSettings
from kaa.client.group.events import (
    Done,
    Fail,
    FindCoordinator,
    MemberState,
    Poll,
    Revoke,
    Send,
    Subscribe,
    Tick,
    Unanswered,
    Withdraw,
    Withdrawn,
)
from kaa.client.group.member import GroupMember, NextStep
from kaa.model.topics import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(params=["classic", "consumer"])
def member(request: pytest.FixtureRequest) -> GroupMember:
    if request.param == "classic":
        strategies = assignors_of(["range"])
        return ClassicMember(ClassicSettings("g", None, strategies, 10_000, 3000, 60_000, 100))
    return ConsumerMember(ConsumerSettings("g", "me", None, 60_000, 100))


def test_it_joins_at_a_poll_and_not_before(member: GroupMember) -> None:
    assert member.handle(Subscribe(frozenset({"t"})), 0) == []
    assert member.handle(Tick(), 10) == []
    (effect,) = member.handle(Poll(), 20)
    assert isinstance(effect, Send)
    assert member.state is MemberState.JOINING
    assert member.handle(Poll(), 30) == [], "one request at a time"


def test_what_may_pass_is_tried_again_after_a_pause(member: GroupMember) -> None:
    member.handle(Subscribe(frozenset({"t"})), 0)
    (first,) = member.handle(Poll(), 0)
    assert member.handle(Unanswered(DisconnectedError("a:1", "gone")), 0) == [FindCoordinator()]
    assert member.handle(Tick(), 99) == []
    assert member.handle(Tick(), 100) == [first]


def test_what_does_not_pass_is_told_and_tried_at_the_next_poll(member: GroupMember) -> None:
    member.handle(Subscribe(frozenset({"t"})), 0)
    (first,) = member.handle(Poll(), 0)
    error = ClientError("no")
    assert member.handle(Unanswered(error), 0) == [Fail(error)]
    assert member.state is MemberState.UNJOINED
    assert member.handle(Poll(), 0) == [first]


def test_what_the_application_holds_is_lost_when_it_is_done(member: GroupMember) -> None:
    member.handle(Subscribe(frozenset({"t"})), 0)
    member.handle(Poll(), 0)
    member.owned = (T0,)
    member._ask_for(Revoke((T0,)), NextStep.ASSIGN, (T0,))
    error = ClientError("no")
    assert member.handle(Unanswered(error), 0) == [Fail(error), Withdraw()]
    assert member.handle(Done(), 0) == [Revoke((T0,), is_lost=True)]
    assert member.handle(Done(), 0) == []
    assert member.state is MemberState.UNJOINED


def test_what_the_application_has_not_begun_with_is_void(member: GroupMember) -> None:
    member.handle(Subscribe(frozenset({"t"})), 0)
    member.handle(Poll(), 0)
    member.owned = (T0, T1)
    member._ask_for(Revoke((T1,)), NextStep.ASSIGN, (T0,))
    assert Withdraw() in member.handle(Unanswered(ClientError("no")), 0)
    assert member.handle(Withdrawn(), 0) == [Revoke((T0, T1), is_lost=True)]
