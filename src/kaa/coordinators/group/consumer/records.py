"""Records of consumer groups: one kind for each part of a group that changes by itself.

| record | says |
|---|---|
| ConsumerGroupMetadata | the epoch of the group, and the hash of the topics it was made for |
| ConsumerGroupMemberMetadata | what a member subscribes to, and who it is |
| ...TargetAssignmentMetadata | the epoch of the target assignment, and when it was computed |
| ...TargetAssignmentMember | what a member is to have |
| ...CurrentMemberAssignment | what a member has, at which epoch |
| ...RegularExpression | the topics that an expression matched |
| ...PartitionMetadata | nothing any more: versions before 4.1 wrote what the hash replaced |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.java_order import integer_hash, map_order, set_order, uuid_hash
from kaa.coordinators.machine import NewRecord
from kaa.wire.messages.offsets_consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.coordinators.group.consumer.group import ResolvedRegex
    from kaa.coordinators.group.consumer.member import ConsumerMember, Owned
    from kaa.wire.primitives import Uuid


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> NewRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return NewRecord(ConsumerGroupMetadataKey(group_id=group_id), value)


def epoch_tombstone(group_id: str) -> NewRecord:
    return NewRecord(ConsumerGroupMetadataKey(group_id=group_id), None)


def partition_metadata_tombstone(group_id: str) -> NewRecord:
    return NewRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_record(group_id: str, member: ConsumerMember) -> NewRecord:
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=member.classic,
    )
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return NewRecord(key, value)


def member_tombstone(group_id: str, member_id: str) -> NewRecord:
    return NewRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> NewRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return NewRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_epoch_tombstone(group_id: str) -> NewRecord:
    return NewRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def target_record(
    group_id: str, member_id: str, assignment: Mapping[Uuid, frozenset[int]]
) -> NewRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(
                topic_id=topic_id, partitions=set_order(sorted(assignment[topic_id]), integer_hash)
            )
            for topic_id in map_order(assignment, uuid_hash)
        ]
    )
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return NewRecord(key, value)


def target_tombstone(group_id: str, member_id: str) -> NewRecord:
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return NewRecord(key, None)


def current_record(group_id: str, member: ConsumerMember) -> NewRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_topic_partitions(member.assigned),
        partitions_pending_revocation=_topic_partitions(member.pending_revocation),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return NewRecord(key, value)


def current_tombstone(group_id: str, member_id: str) -> NewRecord:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return NewRecord(key, None)


def _topic_partitions(owned: Owned) -> list[TopicPartitions]:
    found = []
    for topic_id in map_order(owned, uuid_hash):
        epochs = owned[topic_id]
        numbers = map_order(epochs, integer_hash)
        found.append(
            TopicPartitions(
                topic_id=topic_id,
                partitions=numbers,
                assignment_epochs=[epochs[number] for number in numbers],
            )
        )
    return found


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> NewRecord:
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics),
        version=resolved.version,
        timestamp=resolved.timestamp_ms,
    )
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return NewRecord(key, value)


def regex_tombstone(group_id: str, regex: str) -> NewRecord:
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return NewRecord(key, None)


def remove_member(group_id: str, member_id: str) -> list[NewRecord]:
    """Records that take a member out of its group."""
    return [
        current_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        member_tombstone(group_id, member_id),
    ]
