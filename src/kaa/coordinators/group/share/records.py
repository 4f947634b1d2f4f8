"""Records of share groups in the offsets topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.java_order import integer_hash, map_order, uuid_hash
from kaa.coordinators.group.modern.records import ModernRecords, tombstone
from kaa.coordinators.group.share.group import ShareGroup
from kaa.coordinators.machine import NewRecord
from kaa.coordinators.records import RecordType
from kaa.model.pieces import mapped
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
    from collections.abc import Mapping

    from kaa.coordinators.group.assignors.table import Assignment
    from kaa.coordinators.group.share.group import InitialisedTopic, ShareMember, StatePartitions
    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid

_STABLE: Final = 0


# --- values


def _member_value(member: ShareMember) -> ShareGroupMemberMetadataValue:
    return ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
    )


def _target_value(target: Assignment) -> Pieces[ShareGroupTargetAssignmentMemberValue]:
    topics = yield from mapped(
        lambda topic_id: TopicPartition(
            topic_id=topic_id, partitions=map_order(target[topic_id], integer_hash)
        ),
        map_order(target, uuid_hash),
    )
    return ShareGroupTargetAssignmentMemberValue(topic_partitions=topics)


def _current_value(member: ShareMember) -> Pieces[ShareGroupCurrentMemberAssignmentValue]:
    topics = yield from mapped(
        lambda topic_id: TopicPartitions(
            topic_id=topic_id, partitions=map_order(member.assigned[topic_id], integer_hash)
        ),
        map_order(member.assigned, uuid_hash),
    )
    return ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=_STABLE,
        assigned_partitions=topics,
    )


# --- records

_STATE_PARTITIONS: Final = RecordType(
    ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue
)

SHARE_RECORDS: Final = ModernRecords(
    ShareGroup,
    epoch=RecordType(ShareGroupMetadataKey, ShareGroupMetadataValue),
    member=RecordType(ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    target_epoch=RecordType(
        ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue
    ),
    target=RecordType(ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    current=RecordType(
        ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue
    ),
    own=(_STATE_PARTITIONS,),
    member_value=_member_value,
    target_value=_target_value,
    current_value=_current_value,
)


def partitions_record(group_id: str, partitions: StatePartitions) -> Pieces[NewRecord]:
    initialising = yield from _infos(partitions.initialising)
    initialised = yield from _infos(partitions.initialised)
    return NewRecord(
        ShareGroupStatePartitionMetadataKey(group_id=group_id),
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=initialising,
            initialized_topics=initialised,
            deleting_topics=[
                TopicInfo(topic_id=topic_id, topic_name=partitions.deleting[topic_id])
                for topic_id in map_order(partitions.deleting, uuid_hash)
            ],
        ),
    )


def _infos(topics: Mapping[Uuid, InitialisedTopic]) -> Pieces[list[TopicPartitionsInfo]]:
    return mapped(
        lambda topic_id: TopicPartitionsInfo(
            topic_id=topic_id,
            topic_name=topics[topic_id].name,
            partitions=map_order(topics[topic_id].partitions, integer_hash),
        ),
        map_order(topics, uuid_hash),
    )


def group_tombstones(group: ShareGroup) -> list[NewRecord]:
    """Records that remove a group with all its members."""
    own = tombstone(_STATE_PARTITIONS, group_id=group.group_id)
    return SHARE_RECORDS.remove_group(group.group_id, list(group.members), own)
