"""Records of consumer groups: those of every modern group, and two of their own.

| record | says |
|---|---|
| ConsumerGroupRegularExpression | the topics that an expression matched |
| ConsumerGroupPartitionMetadata | nothing any more: before 4.1 it was what the hash replaced |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.java_order import integer_hash, map_order, set_order, uuid_hash
from kaa.coordinators.group.modern.records import ModernRecords, tombstone
from kaa.coordinators.machine import NewRecord
from kaa.coordinators.records import RecordType
from kaa.model.pieces import mapped
from kaa.wire.messages.offsets_consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
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

    from kaa.coordinators.group.assignors.table import Assignment
    from kaa.coordinators.group.consumer.group import ResolvedRegex
    from kaa.coordinators.group.consumer.member import ConsumerMember, Owned
    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid


# --- values


def _member_value(member: ConsumerMember) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
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


def _target_value(target: Assignment) -> Pieces[ConsumerGroupTargetAssignmentMemberValue]:
    topics = yield from mapped(
        lambda topic_id: TopicPartition(
            topic_id=topic_id, partitions=set_order(sorted(target[topic_id]), integer_hash)
        ),
        map_order(target, uuid_hash),
    )
    return ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)


def _current_value(member: ConsumerMember) -> Pieces[ConsumerGroupCurrentMemberAssignmentValue]:
    assigned = yield from _topic_partitions(member.assigned)
    given_up = yield from _topic_partitions(member.pending_revocation)
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=assigned,
        partitions_pending_revocation=given_up,
    )


def _topic_partitions(owned: Owned) -> Pieces[list[TopicPartitions]]:
    def of_topic(topic_id: Uuid) -> TopicPartitions:
        epochs = owned[topic_id]
        numbers = map_order(epochs, integer_hash)
        return TopicPartitions(
            topic_id=topic_id,
            partitions=numbers,
            assignment_epochs=[epochs[number] for number in numbers],
        )

    return mapped(of_topic, map_order(owned, uuid_hash))


# --- records

_REGEX: Final = RecordType(ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue)
_PARTITIONS: Final = RecordType(
    ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue
)

CONSUMER_RECORDS: Final = ModernRecords(
    ConsumerGroup,
    epoch=RecordType(ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    member=RecordType(ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    target_epoch=RecordType(
        ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue
    ),
    target=RecordType(
        ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue
    ),
    current=RecordType(
        ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue
    ),
    own=(_REGEX, _PARTITIONS),
    member_value=_member_value,
    target_value=_target_value,
    current_value=_current_value,
)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> NewRecord:
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics),
        version=resolved.version,
        timestamp=resolved.timestamp_ms,
    )
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return NewRecord(key, value)


def regex_tombstone(group_id: str, regex: str) -> NewRecord:
    return tombstone(_REGEX, group_id=group_id, regular_expression=regex)


def partition_metadata_tombstone(group_id: str) -> NewRecord:
    return tombstone(_PARTITIONS, group_id=group_id)


def group_tombstones(
    group: ConsumerGroup, renamed: Mapping[str, str] | None = None
) -> list[NewRecord]:
    """Records that remove a group with all its members, of which some have new ids meanwhile."""
    group_id = group.group_id
    return CONSUMER_RECORDS.remove_group(
        group_id,
        [(renamed or {}).get(member_id, member_id) for member_id in group.members],
        *(regex_tombstone(group_id, regex) for regex in group.regexes),
        partition_metadata_tombstone(group_id),
    )
