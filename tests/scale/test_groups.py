"""Groups of sixty members that read all of two thousand topics: they join, leave and expire at the
same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any, TypeVar

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.embedded import ConsumerProtocolSubscription
from kaa.wire.messages.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kaa.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kaa.wire.messages.k14_sync_group import SyncGroupRequest
from kaa.wire.messages.k15_describe_groups import DescribeGroupsRequest
from kaa.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kaa.wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from kaa.wire.schema import Request
from tests.scale.conftest import SESSION_MS
from tests.scale.node import Client
from tests.scale.requests import NAMES, TOPICS
from tests.scale.steps import Scale

MEMBERS = 60
ROUNDS = 2
LEAVES = -1
Answer = TypeVar("Answer", bound=Any)


@pytest.fixture(scope="module")
def clients(scale: Scale) -> Iterator[list[Client]]:
    """One for each member."""
    scale.wait_for_coordinator(0, "g")
    with ExitStack() as stack:
        address = scale.node.broker.bootstrap_servers
        yield [stack.enter_context(closing(Client(address))) for _ in range(MEMBERS)]


class ConsumerGroup:
    """Members that speak the consumer protocol (KIP-848)."""

    def __init__(self, scale: Scale, clients: list[Client], group_id: str) -> None:
        self._scale = scale
        self._clients = clients
        self._group_id = group_id
        self._epochs = [0] * MEMBERS

    def _all(self, requests: list[ConsumerGroupHeartbeatRequest]) -> None:
        answers = asked_together(self._clients, requests)
        for number, answer in enumerate(answers):
            assert isinstance(answer, ConsumerGroupHeartbeatResponse)
            assert answer.error_code == Errors.NONE, answer.error_message
            self._epochs[number] = answer.member_epoch

    def _heartbeat(self, number: int, epoch: int) -> ConsumerGroupHeartbeatRequest:
        joins = epoch == 0
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=f"member-{number}",
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=NAMES if joins else None,
            topic_partitions=[] if joins else None,
        )

    @staticmethod
    def described(group_id: str) -> Request[Any]:
        return ConsumerGroupDescribeRequest(group_ids=[group_id])

    def join(self) -> None:
        """The heartbeats after it bring what was assigned meanwhile."""
        self._all([self._heartbeat(number, 0) for number in range(MEMBERS)])
        self._all([self._heartbeat(n, epoch) for n, epoch in enumerate(self._epochs)])

    def leave(self) -> None:
        self._all([self._heartbeat(number, LEAVES) for number in range(MEMBERS)])


class ClassicGroup:
    """Members that speak the classic protocol."""

    def __init__(self, scale: Scale, clients: list[Client], group_id: str) -> None:
        self._scale = scale
        self._clients = clients
        self._group_id = group_id
        self._member_ids: list[str] = []
        # Of all topics, what they sent would not fit the batch that their group is written in.
        subscription = ConsumerProtocolSubscription(topics=NAMES[: TOPICS // 2], user_data=None)
        metadata = b"\0\0" + subscription.encode(0)
        self._protocols = [JoinGroupRequestProtocol(name="range", metadata=metadata)]

    @staticmethod
    def described(group_id: str) -> Request[Any]:
        return DescribeGroupsRequest(groups=[group_id])

    def join(self) -> None:
        answers = asked_together(self._clients, [self._join("")] * MEMBERS)
        assert {answer.error_code for answer in answers} == {Errors.MEMBER_ID_REQUIRED}
        requests = [self._join(answer.member_id) for answer in answers]
        answers = asked_together(self._clients, requests)
        assert {answer.error_code for answer in answers} == {Errors.NONE}
        assert len({answer.generation_id for answer in answers}) == 1
        self._member_ids = [answer.member_id for answer in answers]
        self._sync(answers)

    def _join(self, member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=self._protocols,
        )

    def _sync(self, answers: list[JoinGroupResponse]) -> None:
        requests = [
            SyncGroupRequest(
                group_id=self._group_id,
                generation_id=answer.generation_id,
                member_id=answer.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[],
            )
            for answer in answers
        ]
        found = asked_together(self._clients, requests)
        assert {answer.error_code for answer in found} == {Errors.NONE}

    def leave(self) -> None:
        members = [MemberIdentity(member_id=one) for one in self._member_ids]
        asked = LeaveGroupRequest(group_id=self._group_id, members=members)
        answer = self._scale.node.client.ask(asked)
        assert {one.error_code for one in answer.members} == {Errors.NONE}


def member_count(scale: Scale, group_id: str) -> int:
    shard = scale.node.broker.services.groups.runtime.shard(0)
    assert shard is not None
    found: int = scale.node.call(lambda: len(shard.machine.groups[group_id].members))
    return found


def asked_together(clients: list[Client], requests: Sequence[Request[Answer]]) -> list[Answer]:
    """The answers to requests of which all are sent before the first is answered."""
    for client, request in zip(clients, requests, strict=True):
        client.send(request)
    return [client.receive(request) for client, request in zip(clients, requests, strict=True)]


@pytest.mark.parametrize("kind", [ConsumerGroup, ClassicGroup])
def test_members_that_come_and_go_together(
    scale: Scale, clients: list[Client], kind: type[ConsumerGroup | ClassicGroup]
) -> None:
    group_id = f"together-{kind.__name__}"
    group = kind(scale, clients, group_id)
    name = f"members of a {kind.__name__}"

    def join_and_leave(_: int) -> None:
        group.join()
        assert member_count(scale, group_id) == MEMBERS
        # Every member is described with what it subscribes to; to decode that takes its time, in
        # which members may expire.
        described = scale.node.client.ask(kind.described(group_id), decodes=False)
        assert len(described) > MEMBERS * TOPICS
        group.leave()
        assert member_count(scale, group_id) == 0

    scale.repeated(f"{name} that join and leave", join_and_leave, ROUNDS)

    def expire(_: int) -> None:
        group.join()
        scale.wait_until(lambda: member_count(scale, group_id) == 0)

    scale.repeated(f"{name} that expire", expire, ROUNDS)
