"""The requests of a classic member, and what the leader reads from the answer to JoinGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.client.group.assignors import KnownMember
from kaa.client.group.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kaa.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kaa.wire.messages.k12_heartbeat import HeartbeatRequest
from kaa.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kaa.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaa.client.group.assignors import Assignor
    from kaa.model.topics import TopicPartition
    from kaa.wire.messages.k11_join_group import JoinGroupResponse


class ClassicSettings(NamedTuple):
    """What of a consumer's settings concerns a classic member."""

    group_id: str
    instance_id: str | None
    assignors: Sequence[Assignor]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    retry_pause_ms: int
    rack_id: str | None = None


def join_request(
    settings: ClassicSettings,
    member_id: str,
    generation_id: int,
    topics: Iterable[str],
    *,
    owned: tuple[TopicPartition, ...],
    before: tuple[TopicPartition, ...],
    reason: str | None,
) -> JoinGroupRequest:
    """What the member wants, said once for each assignor that it knows.

    `owned` is what it has now, `before` what it was assigned last.
    """
    wanted = tuple(topics)
    protocols = []
    for one in settings.assignors:
        user_data = one.user_data(before, generation_id)
        said = Subscription(wanted, user_data, owned, generation_id, settings.rack_id)
        protocols.append(
            JoinGroupRequestProtocol(name=one.name, metadata=encode_subscription(said))
        )
    return JoinGroupRequest(
        group_id=settings.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.max_poll_interval_ms,
        member_id=member_id,
        group_instance_id=settings.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=protocols,
        reason=reason,
    )


def members_of(response: JoinGroupResponse) -> list[KnownMember]:
    """Who joined, as the leader learns; raises WireError if a member says what nobody can read."""
    return [
        KnownMember(one.member_id, one.group_instance_id, decode_subscription(bytes(one.metadata)))
        for one in response.members
    ]


def sync_request(
    settings: ClassicSettings,
    member_id: str,
    generation_id: int,
    protocol: str,
    assignments: Mapping[str, Sequence[TopicPartition]],
) -> SyncGroupRequest:
    """Asks for what the member is to have; the leader says what everybody is to have."""
    return SyncGroupRequest(
        group_id=settings.group_id,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=settings.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol,
        assignments=[
            SyncGroupRequestAssignment(
                member_id=name, assignment=encode_assignment(Assignment(tuple(partitions)))
            )
            for name, partitions in assignments.items()
        ],
    )


def heartbeat_request(
    settings: ClassicSettings, member_id: str, generation_id: int
) -> HeartbeatRequest:
    """A sign of life for one generation."""
    return HeartbeatRequest(
        group_id=settings.group_id,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=settings.instance_id,
    )


def leave_request(settings: ClassicSettings, member_id: str, reason: str) -> LeaveGroupRequest:
    """The request of a member that leaves, with its reason (KIP-800)."""
    identity = MemberIdentity(member_id=member_id, reason=reason)
    return LeaveGroupRequest(group_id=settings.group_id, members=[identity])
