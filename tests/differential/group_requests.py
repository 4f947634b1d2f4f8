"""Requests of groups and offsets, as conversations with two nodes have them.

Each builder takes the version that is wanted, and asks in the highest lower one if its API has none
so high.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kaa.wire.errors import Errors
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kaa.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kaa.wire.messages.k12_heartbeat import HeartbeatRequest
from kaa.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kaa.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kaa.wire.messages.k15_describe_groups import DescribeGroupsRequest
from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest
from kaa.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kaa.wire.primitives import UUID_ZERO
from tests.differential.case import Ask
from tests.unit.coordinators.group.bench import subscription

if TYPE_CHECKING:
    from tests.differential.peers import Peer

TOPIC = "groups-conformance"


def wait_for_coordinator(peer: Peer) -> None:
    """Until every partition of the offsets topic is served."""
    deadline = time.monotonic() + 30
    names = [f"probe-{number}" for number in range(50)]
    waiting = {Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR}
    waiting.add(Errors.COORDINATOR_LOAD_IN_PROGRESS)
    while time.monotonic() < deadline:
        peer.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 6)
        groups = peer.ask(DescribeGroupsRequest(groups=names), 5).groups
        if not waiting & {group.error_code for group in groups}:
            return
    raise AssertionError("the group coordinator did not come up")


def commit(group: str, version: int, partition: int = 0, **fields: Any) -> Ask:
    topic = OffsetCommitRequestTopic(
        name=fields.get("topic", TOPIC) if version < 10 else "",
        topic_id=fields.get("topic_id", UUID_ZERO),
        partitions=[
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=5,
                committed_leader_epoch=3,
                committed_metadata=fields.get("metadata", "note"),
            )
        ],
    )
    request = OffsetCommitRequest(
        group_id=group,
        member_id=fields.get("member", ""),
        generation_id_or_member_epoch=fields.get("generation", -1),
        group_instance_id=fields.get("instance"),
        topics=[topic],
    )
    return Ask(request, version)


def fetch(group: str, version: int, *topics: tuple[str, list[int]], stable: bool = False) -> Ask:
    if version < 8:
        named = [OffsetFetchRequestTopic(name=name, partition_indexes=ps) for name, ps in topics]
        return Ask(OffsetFetchRequest(group_id=group, topics=named or None), version)
    many = [OffsetFetchRequestTopics(name=name, partition_indexes=ps) for name, ps in topics]
    asked = OffsetFetchRequestGroup(group_id=group, topics=many or None)
    return Ask(OffsetFetchRequest(groups=[asked], require_stable=stable), version)


def join(group: str, version: int, member: str = "", **fields: Any) -> Ask:
    data = subscription(fields.get("topic", TOPIC))
    request = JoinGroupRequest(
        group_id=group,
        member_id=member,
        group_instance_id=fields.get("instance"),
        session_timeout_ms=fields.get("session", 10_000),
        rebalance_timeout_ms=10_000,
        protocol_type=fields.get("kind", "consumer"),
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=data)
            for name in fields.get("protocols", ("range",))
        ],
    )
    return Ask(request, version)


def sync(group: str, version: int, member: str, generation: int, **fields: Any) -> Ask:
    request = SyncGroupRequest(
        group_id=group,
        member_id=member,
        generation_id=generation,
        group_instance_id=fields.get("instance"),
        protocol_type=fields.get("kind", "consumer"),
        protocol_name=fields.get("protocol", "range"),
        assignments=[
            SyncGroupRequestAssignment(member_id=one, assignment=data)
            for one, data in fields.get("assignments", {}).items()
        ],
    )
    return Ask(request, min(version, 5))


def heartbeat(
    group: str, version: int, member: str, generation: int, instance: str | None = None
) -> Ask:
    request = HeartbeatRequest(
        group_id=group, member_id=member, generation_id=generation, group_instance_id=instance
    )
    return Ask(request, min(version, 4))


def leave(group: str, version: int, *members: tuple[str, str | None]) -> Ask:
    if version < 3:
        return Ask(LeaveGroupRequest(group_id=group, member_id=members[0][0]), version)
    found = [MemberIdentity(member_id=one, group_instance_id=two) for one, two in members]
    return Ask(LeaveGroupRequest(group_id=group, members=found), min(version, 5))


def describe(version: int, *groups: str) -> Ask:
    asked = DescribeGroupsRequest(groups=list(groups), include_authorized_operations=version >= 3)
    return Ask(asked, min(version, 6))


def delete(version: int, *groups: str) -> Ask:
    return Ask(DeleteGroupsRequest(groups_names=list(groups)), min(version, 2))


def delete_offsets(group: str, topic: str, *partitions: int) -> Ask:
    found = [OffsetDeleteRequestPartition(partition_index=number) for number in partitions]
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=found)]
    return Ask(OffsetDeleteRequest(group_id=group, topics=topics), 0)
