"""Conversations of a classic member with its coordinator, without either clock or network."""

from __future__ import annotations

from typing import Any

import pytest

from kaa.client.errors import DisconnectedError, KafkaError
from kaa.client.group.assignors import assignors_of
from kaa.client.group.classic_machine import ClassicMember, ClassicSettings
from kaa.client.group.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
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
from kaa.wire.messages.k11_join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kaa.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kaa.wire.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse
from kaa.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class Conversation:
    """A member and what it said last."""

    def __init__(self, strategy: str = "range", instance_id: str | None = None) -> None:
        settings = ClassicSettings(
            group_id="g",
            instance_id=instance_id,
            assignors=assignors_of([strategy]),
            session_timeout_ms=10_000,
            heartbeat_interval_ms=3_000,
            max_poll_interval_ms=60_000,
            retry_pause_ms=100,
        )
        self.member = ClassicMember(settings)
        self.now_ms = 0.0

    def tell(self, event: Event) -> list[Effect]:
        return self.member.handle(event, self.now_ms)

    def sent(self, effects: list[Effect], kind: type[Any]) -> Any:
        (effect,) = [one for one in effects if isinstance(one, Send)]
        assert isinstance(effect.request, kind)
        return effect.request

    def begin(self) -> JoinGroupRequest:
        self.tell(Subscribe(frozenset({"t"})))
        request = self.sent(self.tell(Poll()), JoinGroupRequest)
        assert isinstance(request, JoinGroupRequest)
        return request

    def joined(self, generation: int = 1, leader: str = "other") -> list[Effect]:
        return self.tell(
            Answered(
                JoinGroupResponse(
                    generation_id=generation,
                    protocol_name=self.member._settings.assignors[0].name,
                    leader=leader,
                    member_id="me",
                    members=[],
                )
            )
        )

    def synced(self, *partitions: TopicPartition) -> list[Effect]:
        data = encode_assignment(Assignment(partitions))
        return self.tell(Answered(SyncGroupResponse(assignment=data)))

    def settle(self, *partitions: TopicPartition, generation: int = 1) -> None:
        """From a JoinGroup that is under way to a stable member."""
        self.sent(self.joined(generation), SyncGroupRequest)
        for effect in self.synced(*partitions):
            while isinstance(effect, Revoke):
                (effect,) = self.tell(Done())
            assert isinstance(effect, Assign)
        self.tell(Done())
        assert self.member.state is MemberState.STABLE
        assert self.member.owned == partitions

    def heartbeat(self, error: Errors) -> list[Effect]:
        self.now_ms += 3_000
        self.sent(self.tell(Tick()), HeartbeatRequest)
        return self.tell(Answered(HeartbeatResponse(error_code=error)))


def test_joins_when_the_application_polls_and_gets_partitions() -> None:
    talk = Conversation()
    assert talk.tell(Tick()) == []
    request = talk.begin()
    assert request.member_id == ""
    assert [one.name for one in request.protocols] == ["range"]
    answer = JoinGroupResponse(error_code=Errors.MEMBER_ID_REQUIRED, member_id="me")
    again = talk.sent(talk.tell(Answered(answer)), JoinGroupRequest)
    assert again.member_id == "me"
    sync = talk.sent(talk.joined(), SyncGroupRequest)
    assert (sync.generation_id, sync.assignments) == (1, [])
    assert talk.synced(T0, T1) == [Assign((T0, T1), (T0, T1))]
    assert talk.tell(Done()) == []
    assert talk.member.deadline_ms() == 3_000
    assert talk.heartbeat(Errors.NONE) == []


def test_leader_assigns_when_it_knows_the_topics() -> None:
    talk = Conversation()
    talk.begin()
    answer = JoinGroupResponse(
        generation_id=1,
        protocol_name="range",
        leader="me",
        member_id="me",
        members=[
            JoinGroupResponseMember(
                member_id=name, metadata=encode_subscription(Subscription(("t", "u")))
            )
            for name in ("me", "you")
        ],
    )
    assert talk.tell(Answered(answer)) == [FindTopics(frozenset({"t", "u"}))]
    sync = talk.sent(talk.tell(Topics({"t": 3}, {})), SyncGroupRequest)
    given = {
        one.member_id: decode_assignment(one.assignment).partitions for one in sync.assignments
    }
    assert given == {"me": (T0, T1), "you": (T2,)}
    talk.synced(T0, T1)
    talk.tell(Done())
    assert talk.tell(Topics({"t": 3}, {})) == []
    assert talk.tell(Poll()) == []
    # Another topic that is wanted was made: the leader lets all join again.
    talk.tell(Topics({"t": 3, "u": 1}, {}))
    assert talk.tell(Poll()) == [Revoke((T0, T1))]


def test_eager_member_gives_everything_up_before_it_rejoins() -> None:
    talk = Conversation("sticky")
    talk.begin()
    talk.settle(T0, T1)
    assert talk.heartbeat(Errors.REBALANCE_IN_PROGRESS) == []
    assert talk.tell(Poll()) == [Revoke((T0, T1))]
    # Heartbeats go on while the application gives up what it has.
    talk.now_ms += 3_000
    talk.sent(talk.tell(Tick()), HeartbeatRequest)
    talk.tell(Answered(HeartbeatResponse(error_code=Errors.REBALANCE_IN_PROGRESS)))
    request = talk.sent(talk.tell(Done()), JoinGroupRequest)
    subscription = decode_subscription(request.protocols[0].metadata)
    assert subscription.owned == ()
    assert subscription.user_data is not None
    assert b"\0\x01t" in subscription.user_data
    talk.settle(T0, generation=2)


@pytest.mark.parametrize(
    ("error", "member_id", "pause_ms"),
    [
        (Errors.NONE, "me", 0),
        (Errors.REBALANCE_IN_PROGRESS, "me", 0),
        (Errors.NOT_COORDINATOR, "me", 100),
        (Errors.UNKNOWN_MEMBER_ID, "", None),
    ],
)
def test_joins_behind_a_heartbeat_that_is_under_way(
    error: Errors, member_id: str, pause_ms: int | None
) -> None:
    """The application may be done with what it gives up before a heartbeat is answered."""
    talk = Conversation()
    talk.begin()
    talk.settle(T0)
    talk.heartbeat(Errors.REBALANCE_IN_PROGRESS)
    assert talk.tell(Poll()) == [Revoke((T0,))]
    talk.now_ms += 3_000
    talk.sent(talk.tell(Tick()), HeartbeatRequest)
    assert talk.tell(Done()) == []
    assert talk.member.deadline_ms() is None
    talk.tell(Answered(HeartbeatResponse(error_code=error)))
    if pause_ms is None:
        request = talk.sent(talk.tell(Poll()), JoinGroupRequest)
    else:
        assert talk.member.deadline_ms() == talk.now_ms + pause_ms
        talk.now_ms += pause_ms
        request = talk.sent(talk.tell(Tick()), JoinGroupRequest)
    assert request.member_id == member_id
    talk.settle(T0, generation=2)
    assert talk.tell(Poll()) == []


def test_cooperative_member_keeps_what_it_has_and_rejoins_after_giving_up() -> None:
    talk = Conversation("cooperative-sticky")
    talk.begin()
    talk.settle(T0, T1)
    talk.heartbeat(Errors.REBALANCE_IN_PROGRESS)
    request = talk.sent(talk.tell(Poll()), JoinGroupRequest)
    subscription = decode_subscription(request.protocols[0].metadata)
    assert subscription.owned == (T0, T1)
    assert subscription.generation_id == 1
    talk.joined(2)
    assert talk.synced(T0) == [Revoke((T1,))]
    assert talk.tell(Done()) == [Assign((T0,), ())]
    talk.tell(Done())
    assert talk.member.owned == (T0,)
    again = talk.sent(talk.tell(Poll()), JoinGroupRequest)
    assert decode_subscription(again.protocols[0].metadata).owned == (T0,)


@pytest.mark.parametrize("error", [Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION])
def test_member_that_was_thrown_out_loses_its_partitions(error: Errors) -> None:
    talk = Conversation("cooperative-sticky")
    talk.begin()
    talk.settle(T0)
    assert talk.heartbeat(error) == [Revoke((T0,), is_lost=True)]
    assert talk.tell(Done()) == []
    assert talk.member.state is MemberState.UNJOINED
    request = talk.sent(talk.tell(Poll()), JoinGroupRequest)
    assert request.member_id == ("" if error is Errors.UNKNOWN_MEMBER_ID else "me")
    assert decode_subscription(request.protocols[0].metadata).owned == ()


def test_thrown_out_while_the_application_gives_up() -> None:
    talk = Conversation("cooperative-sticky")
    talk.begin()
    talk.settle(T0, T1)
    talk.heartbeat(Errors.REBALANCE_IN_PROGRESS)
    talk.tell(Poll())
    talk.joined(2)
    assert talk.synced(T0) == [Revoke((T1,))]
    assert talk.heartbeat(Errors.UNKNOWN_MEMBER_ID) == [Withdraw()]
    assert talk.tell(Done()) == [Revoke((T0,), is_lost=True)]
    talk.tell(Done())
    assert talk.member.owned == ()
    talk.sent(talk.tell(Poll()), JoinGroupRequest)


def test_application_that_does_not_poll_leaves_the_group() -> None:
    talk = Conversation()
    talk.begin()
    talk.settle(T0)
    talk.now_ms = 60_000
    effects = talk.tell(Tick())
    assert isinstance(effects[0], Warn)
    assert "max.poll.interval.ms" in effects[0].text
    assert talk.sent(effects[1:], LeaveGroupRequest).members[0].member_id == "me"
    assert effects[2:] == [Revoke((T0,), is_lost=True)]
    talk.tell(Answered(LeaveGroupResponse()))
    assert talk.member.deadline_ms() is None
    talk.tell(Done())
    assert talk.sent(talk.tell(Poll()), JoinGroupRequest).member_id == ""


def test_coordinator_that_moved_or_is_gone() -> None:
    talk = Conversation()
    talk.begin()
    answer = JoinGroupResponse(error_code=Errors.NOT_COORDINATOR)
    assert talk.tell(Answered(answer)) == [FindCoordinator()]
    assert talk.member.deadline_ms() == 100
    talk.now_ms = 100
    talk.sent(talk.tell(Tick()), JoinGroupRequest)
    assert talk.tell(Unanswered(DisconnectedError("h:1", "gone"))) == [FindCoordinator()]
    talk.now_ms = 200
    talk.sent(talk.tell(Tick()), JoinGroupRequest)
    talk.settle(T0)
    assert talk.heartbeat(Errors.COORDINATOR_LOAD_IN_PROGRESS) == []
    assert talk.member.state is MemberState.STABLE
    assert talk.member.deadline_ms() == talk.now_ms + 100


def test_rebalance_between_join_and_sync() -> None:
    talk = Conversation()
    talk.begin()
    talk.joined()
    answer = SyncGroupResponse(error_code=Errors.REBALANCE_IN_PROGRESS)
    talk.sent(talk.tell(Answered(answer)), JoinGroupRequest)


@pytest.mark.parametrize(
    "error", [Errors.GROUP_AUTHORIZATION_FAILED, Errors.INCONSISTENT_GROUP_PROTOCOL]
)
def test_refusal_is_told_to_the_application(error: Errors) -> None:
    talk = Conversation()
    talk.begin()
    (effect,) = talk.tell(Answered(JoinGroupResponse(error_code=error)))
    assert isinstance(effect, Fail)
    assert isinstance(effect.error, KafkaError)
    assert effect.error.error is error
    assert effect.error.hint is not None
    assert talk.member.deadline_ms() is None
    # The next poll tries again; by then the cause may be gone.
    assert talk.sent(talk.tell(Poll()), JoinGroupRequest).member_id == ""
    talk.settle(T0)


def test_refused_member_loses_what_it_has_and_comes_back() -> None:
    talk = Conversation("cooperative-sticky")
    talk.begin()
    talk.settle(T0, T1)
    effect, lost = talk.heartbeat(Errors.GROUP_AUTHORIZATION_FAILED)
    assert isinstance(effect, Fail)
    assert lost == Revoke((T0, T1), is_lost=True)
    assert talk.member.generation_id == -1
    assert talk.tell(Done()) == []
    request = talk.sent(talk.tell(Poll()), JoinGroupRequest)
    assert decode_subscription(request.protocols[0].metadata).owned == ()
    talk.settle(T1, generation=2)


def test_refused_while_the_application_gives_up() -> None:
    talk = Conversation()
    talk.begin()
    talk.settle(T0)
    talk.heartbeat(Errors.REBALANCE_IN_PROGRESS)
    assert talk.tell(Poll()) == [Revoke((T0,))]
    effect, withdraw = talk.heartbeat(Errors.GROUP_AUTHORIZATION_FAILED)
    assert isinstance(effect, Fail)
    assert withdraw == Withdraw()
    talk.sent(talk.tell(Done()), JoinGroupRequest)
    talk.settle(T0, generation=2)


def test_lost_during_a_pause_joins_at_the_next_poll() -> None:
    talk = Conversation()
    talk.begin()
    talk.settle(T0)
    talk.heartbeat(Errors.COORDINATOR_LOAD_IN_PROGRESS)
    assert talk.member.commit_refused(Errors.UNKNOWN_MEMBER_ID, talk.now_ms) == [
        Revoke((T0,), is_lost=True)
    ]
    talk.tell(Done())
    talk.sent(talk.tell(Poll()), JoinGroupRequest)


def test_static_member_keeps_its_place() -> None:
    talk = Conversation(instance_id="i")
    talk.begin()
    talk.settle(T0)
    assert talk.tell(Leave()) == []
    assert talk.member.state is MemberState.OUTSIDE
    talk = Conversation(instance_id="i")
    talk.begin()
    talk.settle(T0)
    effect, lost = talk.heartbeat(Errors.FENCED_INSTANCE_ID)
    assert isinstance(effect, Fail)
    assert lost == Revoke((T0,), is_lost=True)
    # The present holder keeps its place: the coordinator knows this one by its old id.
    talk.tell(Done())
    assert talk.sent(talk.tell(Poll()), JoinGroupRequest).member_id == "me"


def test_other_topics_and_refused_commits() -> None:
    talk = Conversation("cooperative-sticky")
    talk.begin()
    talk.settle(T0)
    talk.tell(Subscribe(frozenset({"u"})))
    assert talk.tell(Poll()) == [Revoke((T0,))]
    request = talk.sent(talk.tell(Done()), JoinGroupRequest)
    assert decode_subscription(request.protocols[0].metadata).topics == ("u",)
    u0 = TopicPartition("u", 0)
    talk.settle(u0, generation=2)
    assert talk.member.commit_refused(Errors.REBALANCE_IN_PROGRESS, 0) == []
    talk.sent(talk.tell(Poll()), JoinGroupRequest)
    talk.settle(u0, generation=3)
    lost = talk.member.commit_refused(Errors.ILLEGAL_GENERATION, 0)
    assert lost == [Revoke((u0,), is_lost=True)]


def test_leaving() -> None:
    talk = Conversation()
    assert talk.tell(Leave()) == []
    talk.begin()
    talk.settle(T0)
    talk.sent(talk.tell(Leave()), LeaveGroupRequest)
    assert talk.member.owned == ()
    assert talk.tell(Poll()) == []
