"""Records of share groups in the offsets topic, written and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.coordinators.group.java_order import integer_hash, map_order, uuid_hash
from kaa.coordinators.group.one_kind import replayed_group
from kaa.coordinators.group.share.group import (
    LEAVE_EPOCH,
    InitialisedTopic,
    ShareGroup,
    ShareMember,
    StatePartitions,
)
from kaa.coordinators.machine import NewRecord
from kaa.coordinators.records import RecordType
from kaa.wire.messages.offsets_share import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartition,
    TopicPartitions,
    TopicPartitionsInfo,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.coordinators.group.assignors.table import Assignment
    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.timeline import Timeline, TimelineDict
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import CoordinatorKey

SHARE_RECORD_TYPES: Final = (
    RecordType(ShareGroupMetadataKey, ShareGroupMetadataValue),
    RecordType(ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    RecordType(ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    RecordType(ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    RecordType(ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    RecordType(ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
)
_KEYS: Final = tuple(kind.key for kind in SHARE_RECORD_TYPES)
_STABLE: Final = 0


# --- records


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> NewRecord:
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return NewRecord(ShareGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ShareMember) -> NewRecord:
    return NewRecord(
        ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
        ),
    )


def target_epoch_record(group_id: str, epoch: int, now_ms: int) -> NewRecord:
    value = ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=now_ms
    )
    return NewRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: Assignment) -> NewRecord:
    return NewRecord(
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ShareGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(
                    topic_id=topic_id, partitions=map_order(target[topic_id], integer_hash)
                )
                for topic_id in map_order(target, uuid_hash)
            ]
        ),
    )


def current_record(group_id: str, member: ShareMember) -> NewRecord:
    return NewRecord(
        ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=_STABLE,
            assigned_partitions=[
                TopicPartitions(
                    topic_id=topic_id,
                    partitions=map_order(member.assigned[topic_id], integer_hash),
                )
                for topic_id in map_order(member.assigned, uuid_hash)
            ],
        ),
    )


def partitions_record(group_id: str, partitions: StatePartitions) -> NewRecord:
    return NewRecord(
        ShareGroupStatePartitionMetadataKey(group_id=group_id),
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=_infos(partitions.initialising),
            initialized_topics=_infos(partitions.initialised),
            deleting_topics=[
                TopicInfo(topic_id=topic_id, topic_name=partitions.deleting[topic_id])
                for topic_id in map_order(partitions.deleting, uuid_hash)
            ],
        ),
    )


def _infos(topics: Mapping[Uuid, InitialisedTopic]) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(
            topic_id=topic_id,
            topic_name=topics[topic_id].name,
            partitions=map_order(topics[topic_id].partitions, integer_hash),
        )
        for topic_id in map_order(topics, uuid_hash)
    ]


def remove_member(group_id: str, member_id: str) -> list[NewRecord]:
    """Records that take a member out of its group."""
    return [
        NewRecord(key(group_id=group_id, member_id=member_id), None)
        for key in (
            ShareGroupCurrentMemberAssignmentKey,
            ShareGroupTargetAssignmentMemberKey,
            ShareGroupMemberMetadataKey,
        )
    ]


def group_tombstones(group: ShareGroup) -> list[NewRecord]:
    """Records that remove a group with all its members."""
    records: list[NewRecord] = []
    for member_id in group.members:
        records += remove_member(group.group_id, member_id)
    keys = (
        ShareGroupTargetAssignmentMetadataKey,
        ShareGroupStatePartitionMetadataKey,
        ShareGroupMetadataKey,
    )
    return records + [NewRecord(key(group_id=group.group_id), None) for key in keys]


# --- replay


def replay_share(
    groups: TimelineDict[str, Group], timeline: Timeline, key: CoordinatorKey, value: Any
) -> bool:
    """Puts a record into memory; False if it is not one of a share group."""
    if not isinstance(key, _KEYS):
        return False
    group_id: str = key.group_id  # type: ignore[attr-defined]
    group = replayed_group(groups, timeline, group_id, ShareGroup, value)
    if group is None:
        return True
    match key:
        case ShareGroupMetadataKey():
            if value is None:
                assert group.is_empty, f"group {group_id} is deleted while it has members"
                groups.pop(group_id)
            else:
                group.epochs = group.epochs._replace(
                    group_epoch=value.epoch, metadata_hash=value.metadata_hash
                )
        case ShareGroupMemberMetadataKey():
            _replay_member(group, key.member_id, value)
        case ShareGroupTargetAssignmentMetadataKey():
            group.epochs = group.epochs._replace(
                assignment_epoch=-1 if value is None else value.assignment_epoch,
                assignment_timestamp_ms=0 if value is None else value.assignment_timestamp,
            )
        case ShareGroupTargetAssignmentMemberKey():
            if value is None:
                group.targets.pop(key.member_id)
            else:
                group.targets[key.member_id] = _assignment(value.topic_partitions)
        case ShareGroupCurrentMemberAssignmentKey():
            _replay_current(group, key.member_id, value)
        case ShareGroupStatePartitionMetadataKey():
            group.partitions = StatePartitions() if value is None else _partitions(value)
    return True


def _replay_member(
    group: ShareGroup, member_id: str, value: ShareGroupMemberMetadataValue | None
) -> None:
    if value is None:
        group.members.pop(member_id)
        return
    known = group.members.get(member_id) or ShareMember(member_id)
    group.members[member_id] = known._replace(
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=frozenset(value.subscribed_topic_names),
    )


def _replay_current(
    group: ShareGroup, member_id: str, value: ShareGroupCurrentMemberAssignmentValue | None
) -> None:
    known = group.members.get(member_id)
    if value is not None:
        group.members[member_id] = (known or ShareMember(member_id))._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            assigned=_assignment(value.assigned_partitions),
        )
    elif known is not None:
        group.members[member_id] = known._replace(
            member_epoch=LEAVE_EPOCH, previous_member_epoch=LEAVE_EPOCH, assigned={}
        )


def _assignment(topics: Iterable[TopicPartition] | Iterable[TopicPartitions]) -> Assignment:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}


def _partitions(value: ShareGroupStatePartitionMetadataValue) -> StatePartitions:
    def topics(infos: Iterable[TopicPartitionsInfo]) -> dict[Uuid, InitialisedTopic]:
        return {
            info.topic_id: InitialisedTopic(info.topic_name, frozenset(info.partitions))
            for info in infos
        }

    return StatePartitions(
        topics(value.initializing_topics),
        topics(value.initialized_topics),
        {info.topic_id: info.topic_name for info in value.deleting_topics},
    )
