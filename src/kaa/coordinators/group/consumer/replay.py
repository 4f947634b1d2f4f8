"""Records of consumer groups, as they become memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.one_kind import replayed_group
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
    from kaa.coordinators.group.kinds import Group
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
    """Puts a record into memory; False if it is not one of a consumer group."""
    if not isinstance(key, _KEYS):
        return False
    group_id: str = key.group_id  # type: ignore[attr-defined]
    group = replayed_group(groups, timeline, group_id, ConsumerGroup, value)
    if group is None:
        return True
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
