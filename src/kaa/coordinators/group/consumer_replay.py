"""Records of consumer groups, as they become memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.coordinators.group.consumer_group import ConsumerGroup
from kaa.coordinators.records import RecordType
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
)

if TYPE_CHECKING:
    from kaa.coordinators.group.consumer import Group
    from kaa.coordinators.timeline import Timeline, TimelineDict
    from kaa.wire.schema import CoordinatorKey

CONSUMER_RECORD_TYPES: Final = (
    RecordType(ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    RecordType(ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    RecordType(ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    RecordType(
        ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue
    ),
    RecordType(ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    RecordType(ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    RecordType(ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
)
_KEYS: Final = tuple(kind.key for kind in CONSUMER_RECORD_TYPES)


def replay_consumer(
    groups: TimelineDict[str, Group], timeline: Timeline, key: CoordinatorKey, value: Any
) -> bool:
    """Puts a record into memory; False if it is not one of a consumer group.

    The first record of a group makes it, in the place of one that only commits offsets. A tombstone
    for a group that is not there says nothing: its records were compacted away.
    """
    if not isinstance(key, _KEYS):
        return False
    group_id: str = key.group_id  # type: ignore[attr-defined]
    group = groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        if value is None:
            return True
        group = groups[group_id] = ConsumerGroup(group_id, timeline)
    match key:
        case ConsumerGroupMetadataKey():
            if value is None:
                assert group.is_empty, f"group {group_id} is deleted while it has members"
                groups.pop(group_id)
            else:
                group.replay_epoch(value)
        case ConsumerGroupPartitionMetadataKey():
            group.replay_partition_metadata(value)
        case ConsumerGroupMemberMetadataKey():
            group.replay_member(key.member_id, value)
        case ConsumerGroupTargetAssignmentMetadataKey():
            group.replay_target_epoch(value)
        case ConsumerGroupTargetAssignmentMemberKey():
            group.replay_target(key.member_id, value)
        case ConsumerGroupCurrentMemberAssignmentKey():
            group.replay_current(key.member_id, value)
        case ConsumerGroupRegularExpressionKey():
            group.replay_regex(key.regular_expression, value)
    return True
