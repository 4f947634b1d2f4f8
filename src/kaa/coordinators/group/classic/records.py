"""Records of classic groups: written when a generation is complete, read when a group is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.classic.group import ClassicGroup, ClassicGroupState, ClassicMember
from kaa.coordinators.machine import NewRecord
from kaa.coordinators.records import RecordType
from kaa.wire.messages.offsets_classic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.timeline import TimelineDict
    from kaa.wire.schema import CoordinatorKey, CoordinatorValue

CLASSIC_RECORD_TYPES: Final = (RecordType(GroupMetadataKey, GroupMetadataValue),)
# Version 4 can be read but is not written, so that older brokers read what this one wrote.
GROUP_METADATA_VERSION: Final = 3


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> NewRecord:
    """The group with all members, which have these assignments."""
    timestamp_ms = group.state_timestamp_ms
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=-1 if timestamp_ms is None else timestamp_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=assignments[member.member_id],
            )
            for member in group.members.values()
        ],
    )
    return NewRecord(GroupMetadataKey(group=group.group_id), value, GROUP_METADATA_VERSION)


def new_group_record(group: ClassicGroup) -> NewRecord:
    """A group that nobody has joined yet."""
    timestamp_ms = group.state_timestamp_ms
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=-1 if timestamp_ms is None else timestamp_ms,
        members=[],
    )
    return NewRecord(GroupMetadataKey(group=group.group_id), value, GROUP_METADATA_VERSION)


def group_tombstone(group_id: str) -> NewRecord:
    return NewRecord(GroupMetadataKey(group=group_id), None)


def group_of_record(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group as it was stored: without members it is empty, with members it is stable."""
    timestamp_ms = value.current_state_timestamp
    group = ClassicGroup(group_id, None if timestamp_ms == -1 else timestamp_ms)
    group.generation_id = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.leader_id = value.leader
    for member in value.members:
        timeout_ms = member.rebalance_timeout
        group.add(
            ClassicMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout if timeout_ms == -1 else timeout_ms,
                member.session_timeout,
                ((value.protocol or "", bytes(member.subscription)),),
                bytes(member.assignment),
            ),
            value.protocol_type,
        )
    if value.members:
        group.state = ClassicGroupState.STABLE
    group.subscribed_topics = group.compute_subscribed_topics()
    return group


def replay_classic(
    groups: TimelineDict[str, Group], key: CoordinatorKey, value: CoordinatorValue | None
) -> bool:
    """Puts a record into memory; False if it is not one of a classic group."""
    if not isinstance(key, GroupMetadataKey):
        return False
    if isinstance(value, GroupMetadataValue):
        groups[key.group] = group_of_record(key.group, value)
    else:
        groups.pop(key.group)
    return True
