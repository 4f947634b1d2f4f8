"""Conversations of a member of the newer protocol, without either clock or network."""

from __future__ import annotations

import pytest

from kaa.client.errors import DisconnectedError, UnsupportedApiError
from kaa.client.group.consumer_machine import ConsumerMember, ConsumerSettings
from kaa.client.group.events import (
    Answered,
    Assign,
    Done,
    Effect,
    Event,
    Fail,
    FindCoordinator,
    FindTopics,
    Leave,
    MemberState,
    Poll,
    Revoke,
    Send,
    Subscribe,
    Tick,
    Topics,
    Unanswered,
    Warn,
    Withdraw,
)
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k68_consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kaa.wire.primitives import Uuid

ID = Uuid(b"0123456789abcdef")
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class Conversation:
    """A member, and the heartbeats that it sends."""

    def __init__(self, instance_id: str | None = None) -> None:
        settings = ConsumerSettings(
            group_id="g",
            member_id="me",
            instance_id=instance_id,
            max_poll_interval_ms=60_000,
            retry_pause_ms=100,
            assignor="uniform",
            rack_id="r",
        )
        self.member = ConsumerMember(settings)
        self.now_ms = 0.0

    def tell(self, event: Event) -> list[Effect]:
        return self.member.handle(event, self.now_ms)

    def sent(self, effects: list[Effect]) -> ConsumerGroupHeartbeatRequest:
        (effect,) = [one for one in effects if isinstance(one, Send)]
        assert isinstance(effect.request, ConsumerGroupHeartbeatRequest)
        return effect.request

    def answer(
        self, epoch: int, numbers: list[int] | None = None, error: Errors = Errors.NONE
    ) -> list[Effect]:
        assignment = None
        if numbers is not None:
            some = [TopicPartitions(topic_id=ID, partitions=numbers)] if numbers else []
            assignment = Assignment(topic_partitions=some)
        return self.tell(
            Answered(
                ConsumerGroupHeartbeatResponse(
                    error_code=error,
                    member_id="me",
                    member_epoch=epoch,
                    heartbeat_interval_ms=5_000,
                    assignment=assignment,
                )
            )
        )

    def begin(self) -> ConsumerGroupHeartbeatRequest:
        self.tell(Topics({}, {ID: "t"}))
        self.tell(Subscribe(frozenset({"t"})))
        return self.sent(self.tell(Poll()))

    def settle(self, *numbers: int) -> None:
        """From a heartbeat that is under way to a stable member with these partitions."""
        (effect,) = self.answer(1, list(numbers))
        assert isinstance(effect, Assign)
        self.sent(self.tell(Done()))
        assert self.answer(1) == []
        assert self.member.state is MemberState.STABLE


def test_first_heartbeat_says_everything_and_later_ones_what_changed() -> None:
    talk = Conversation()
    first = talk.begin()
    assert (first.member_id, first.member_epoch) == ("me", 0)
    assert first.subscribed_topic_names == ["t"]
    assert first.topic_partitions == []
    assert (first.rebalance_timeout_ms, first.server_assignor) == (60_000, "uniform")
    assert talk.answer(1) == []
    assert talk.member.state is MemberState.STABLE
    assert talk.member.deadline_ms() == 5_000
    talk.now_ms = 5_000
    second = talk.sent(talk.tell(Tick()))
    assert second.member_epoch == 1
    assert second.subscribed_topic_names is None
    assert second.topic_partitions is None
    assert second.rebalance_timeout_ms == -1


def test_what_it_has_is_said_at_once() -> None:
    talk = Conversation()
    talk.begin()
    assert talk.answer(1, [0, 1]) == [Assign((T0, T1), (T0, T1))]
    told = talk.sent(talk.tell(Done()))
    assert told.topic_partitions is not None
    assert [one.partitions for one in told.topic_partitions] == [[0, 1]]
    talk.answer(1)
    talk.now_ms = 5_000
    talk.sent(talk.tell(Tick()))
    # Less than before: it is given up before the rest is taken.
    assert talk.answer(2, [1, 2]) == [Revoke((T0,))]
    effects = talk.tell(Done())
    assert effects[0] == Assign((T1, T2), (T2,))
    told = talk.sent(effects)
    assert told.topic_partitions is not None
    assert [one.partitions for one in told.topic_partitions] == [[1]]
    talk.answer(2)
    talk.tell(Done())
    assert talk.member.owned == (T1, T2)


def test_topics_that_are_not_known_yet_are_looked_for() -> None:
    talk = Conversation()
    talk.tell(Subscribe(frozenset(), "t.*"))
    assert talk.sent(talk.tell(Poll())).subscribed_topic_regex == "t.*"
    assert talk.answer(1, [0]) == [FindTopics(None)]
    assert talk.tell(Topics({}, {})) == [FindTopics(None)]
    assert talk.tell(Topics({}, {ID: "t"})) == [Assign((T0,), (T0,))]


@pytest.mark.parametrize("error", [Errors.FENCED_MEMBER_EPOCH, Errors.UNKNOWN_MEMBER_ID])
def test_fenced_member_loses_its_partitions_and_joins_again(error: Errors) -> None:
    talk = Conversation()
    talk.begin()
    talk.settle(0, 1)
    talk.now_ms = 5_000
    talk.sent(talk.tell(Tick()))
    assert talk.answer(0, error=error) == [Revoke((T0, T1), is_lost=True)]
    assert talk.member.deadline_ms() is None
    talk.tell(Done())
    again = talk.sent(talk.tell(Poll()))
    assert (again.member_id, again.member_epoch) == ("me", 0)
    assert again.topic_partitions == []


def test_fenced_while_the_application_is_at_work() -> None:
    talk = Conversation()
    talk.begin()
    assert talk.answer(1, [0]) == [Assign((T0,), (T0,))]
    talk.now_ms = 5_000
    talk.sent(talk.tell(Tick()))
    assert talk.answer(0, error=Errors.FENCED_MEMBER_EPOCH) == [Withdraw()]
    assert talk.tell(Done()) == [Revoke((T0,), is_lost=True)]
    talk.tell(Done())
    assert talk.member.state is MemberState.UNJOINED


def test_coordinator_that_moved_hears_everything_again() -> None:
    talk = Conversation()
    talk.begin()
    talk.settle(0)
    talk.now_ms = 5_000
    talk.sent(talk.tell(Tick()))
    assert talk.answer(1, error=Errors.NOT_COORDINATOR) == [FindCoordinator()]
    talk.now_ms += 100
    told = talk.sent(talk.tell(Tick()))
    assert told.subscribed_topic_names == ["t"]
    assert told.topic_partitions is not None
    assert talk.tell(Unanswered(DisconnectedError("h:1", "gone"))) == [FindCoordinator()]


def test_application_that_does_not_poll_leaves_the_group() -> None:
    talk = Conversation()
    talk.begin()
    talk.settle(0)
    talk.now_ms = 60_000
    effects = talk.tell(Tick())
    assert isinstance(effects[0], Warn)
    assert talk.sent(effects).member_epoch == -1
    assert effects[2] == Revoke((T0,), is_lost=True)
    assert talk.answer(-1) == []
    talk.tell(Done())
    assert talk.sent(talk.tell(Poll())).member_epoch == 0


def test_refusals_are_told_and_the_next_poll_tries_again() -> None:
    talk = Conversation()
    talk.begin()
    (effect,) = talk.answer(0, error=Errors.UNSUPPORTED_ASSIGNOR)
    assert isinstance(effect, Fail)
    assert "group.remote.assignor" in str(effect.error)
    talk = Conversation()
    talk.begin()
    (effect,) = talk.tell(Unanswered(UnsupportedApiError("too old")))
    assert isinstance(effect, Fail)
    assert "group.protocol=classic" in str(effect.error)
    assert talk.member.deadline_ms() is None
    assert talk.sent(talk.tell(Poll())).member_epoch == 0


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_leaving(instance_id: str | None, epoch: int) -> None:
    talk = Conversation(instance_id)
    assert talk.tell(Leave()) == []
    talk.begin()
    talk.settle(0)
    assert talk.sent(talk.tell(Leave())).member_epoch == epoch
    assert talk.member.owned == ()


def test_subscription_and_commits() -> None:
    talk = Conversation()
    talk.begin()
    talk.settle(0)
    told = talk.sent(talk.tell(Subscribe(frozenset({"t", "u"}))))
    assert told.subscribed_topic_names == ["t", "u"]
    talk.answer(2)
    assert talk.tell(Subscribe(frozenset({"t", "u"}))) == []
    assert talk.member.commit_refused(Errors.STALE_MEMBER_EPOCH, 0) == []
    assert talk.member.deadline_ms() == 0
    assert talk.member.commit_refused(Errors.UNKNOWN_MEMBER_ID, 0) == [Revoke((T0,), is_lost=True)]
