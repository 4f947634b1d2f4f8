from __future__ import annotations

from kaa.client.group.assignors import assignors_of
from kaa.client.group.classic_requests import (
    ClassicSettings,
    heartbeat_request,
    join_request,
    leave_request,
    members_of,
    sync_request,
)
from kaa.client.group.consumer_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_subscription,
)
from kaa.model.topics import TopicPartition
from kaa.wire.messages.k11_join_group import JoinGroupResponse, JoinGroupResponseMember

SETTINGS = ClassicSettings(
    group_id="g",
    instance_id="i",
    assignors=assignors_of(["range", "cooperative-sticky"]),
    session_timeout_ms=10_000,
    heartbeat_interval_ms=3_000,
    max_poll_interval_ms=60_000,
    retry_pause_ms=100,
    rack_id="r",
)
T0, T1 = (TopicPartition("t", number) for number in range(2))


def test_join_says_the_same_for_every_assignor() -> None:
    request = join_request(SETTINGS, "me", 3, ["t"], owned=(T0,), before=(T0, T1), reason="why")
    assert (request.group_id, request.member_id, request.group_instance_id) == ("g", "me", "i")
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (10_000, 60_000)
    assert request.reason == "why"
    assert [one.name for one in request.protocols] == ["range", "cooperative-sticky"]
    for protocol in request.protocols:
        said = decode_subscription(bytes(protocol.metadata))
        assert (said.topics, said.owned, said.rack_id) == (("t",), (T0,), "r")
        assert said.generation_id == 3


def test_leader_reads_who_joined() -> None:
    data = encode_subscription(Subscription(("t",)))
    answer = JoinGroupResponse(
        members=[JoinGroupResponseMember(member_id="a", group_instance_id="x", metadata=data)]
    )
    (member,) = members_of(answer)
    assert (member.member_id, member.instance_id) == ("a", "x")
    assert member.subscription.topics == ("t",)


def test_sync_carries_what_everybody_shall_have() -> None:
    request = sync_request(SETTINGS, "me", 3, "range", {"me": [T0], "you": [T1]})
    assert (request.generation_id, request.member_id, request.protocol_name) == (3, "me", "range")
    given = {
        one.member_id: decode_assignment(bytes(one.assignment)).partitions
        for one in request.assignments
    }
    assert given == {"me": (T0,), "you": (T1,)}


def test_heartbeat_and_leave() -> None:
    heartbeat = heartbeat_request(SETTINGS, "me", 3)
    assert (heartbeat.group_id, heartbeat.member_id, heartbeat.generation_id) == ("g", "me", 3)
    leave = leave_request(SETTINGS, "me", "why")
    assert [(one.member_id, one.reason) for one in leave.members] == [("me", "why")]
