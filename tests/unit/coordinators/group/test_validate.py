"""Requests that are refused whatever their group is."""

from __future__ import annotations

import pytest

from kaa.coordinators.group.settings import GroupSettings
from kaa.coordinators.group.validate import (
    share_heartbeat_problem,
    validate_heartbeat,
    validate_join,
)
from kaa.coordinators.machine import CoordinatorError
from kaa.limits import (
    CLASSIC_GROUP_METADATA_BYTES_MAX,
    CLASSIC_GROUP_PROTOCOLS_MAX,
    GROUP_SUBSCRIBED_CHARACTERS_MAX,
    GROUP_SUBSCRIBED_NAMES_MAX,
)
from kaa.wire.errors import Errors
from kaa.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kaa.wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest

SETTINGS = GroupSettings()
MANY = [str(number) for number in range(GROUP_SUBSCRIBED_NAMES_MAX + 1)]


def join(*metadata: bytes) -> JoinGroupRequest:
    protocols = [
        JoinGroupRequestProtocol(name=f"range-{number}", metadata=each)
        for number, each in enumerate(metadata)
    ]
    return JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocols=protocols)


def test_as_much_as_a_member_may_bring() -> None:
    validate_join(join(*[b"x"] * CLASSIC_GROUP_PROTOCOLS_MAX), SETTINGS)
    half = bytes(CLASSIC_GROUP_METADATA_BYTES_MAX // 2)
    validate_join(join(half, half), SETTINGS)


@pytest.mark.parametrize(
    "metadata",
    [
        [b"x"] * (CLASSIC_GROUP_PROTOCOLS_MAX + 1),
        [bytes(CLASSIC_GROUP_METADATA_BYTES_MAX), b"x"],
    ],
    ids=["protocols", "bytes"],
)
def test_more_than_a_member_may_bring(metadata: list[bytes]) -> None:
    with pytest.raises(CoordinatorError) as refused:
        validate_join(join(*metadata), SETTINGS)
    assert refused.value.error is Errors.INVALID_REQUEST


def heartbeat(names: list[str], member_epoch: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=member_epoch,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=names,
        topic_partitions=[],
    )


@pytest.mark.parametrize("member_epoch", [0, 5])
def test_more_names_than_a_member_may_subscribe_to(member_epoch: int) -> None:
    validate_heartbeat(heartbeat(MANY[1:], member_epoch), 1, ())
    with pytest.raises(CoordinatorError) as refused:
        validate_heartbeat(heartbeat(MANY, member_epoch), 1, ())
    assert refused.value.error is Errors.INVALID_REQUEST
    assert (
        refused.value.message
        == "A member can subscribe to at most 20,000 topics by name, not to 20,001."
    )


def test_more_names_of_a_share_member() -> None:
    request = ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=MANY[1:]
    )
    assert share_heartbeat_problem(request) is None
    request.subscribed_topic_names = MANY
    assert "20,001" in (share_heartbeat_problem(request) or "")


def test_longer_names_than_a_member_may_subscribe_to() -> None:
    names = ["n" * (GROUP_SUBSCRIBED_CHARACTERS_MAX // 64)] * 64
    validate_heartbeat(heartbeat(names, 0), 1, ())
    names.append("n")
    with pytest.raises(CoordinatorError) as refused:
        validate_heartbeat(heartbeat(names, 0), 1, ())
    assert refused.value.error is Errors.INVALID_REQUEST
    assert "at most 1,048,576 characters" in (refused.value.message or "")
    request = ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=names
    )
    assert "at most 1,048,576 characters" in (share_heartbeat_problem(request) or "")
