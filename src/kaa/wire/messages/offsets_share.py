"""Records of the offsets topic: share groups (KIP-932)."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import CoordinatorKey, CoordinatorValue, Int8, Int32, Int64, Struct, field


class ShareGroupMemberMetadataKey(CoordinatorKey, record_type=10, versions="0"):
    """A member of a share group."""

    group_id: str = field("0")
    member_id: str = field("0")


class ShareGroupMemberMetadataValue(CoordinatorValue, record_type=10, versions="0", flexible="0+"):
    """The member's subscription and client facts."""

    rack_id: str | None = field("0+")
    client_id: str = field("0+")
    client_host: str = field("0+")
    subscribed_topic_names: list[str] = field("0+")


class ShareGroupMetadataKey(CoordinatorKey, record_type=11, versions="0"):
    """A share group."""

    group_id: str = field("0")


class ShareGroupMetadataValue(CoordinatorValue, record_type=11, versions="0", flexible="0+"):
    """The group's epoch and the hash of the topics it sees."""

    epoch: Int32 = field("0+")
    metadata_hash: Int64 = field("0+")


class ShareGroupTargetAssignmentMetadataKey(CoordinatorKey, record_type=12, versions="0"):
    """A share group."""

    group_id: str = field("0")


class ShareGroupTargetAssignmentMetadataValue(
    CoordinatorValue,
    record_type=12,
    versions="0",
    flexible="0+",
):
    """The epoch of the group's target assignment."""

    assignment_epoch: Int32 = field("0+")
    assignment_timestamp: Int64 = field("0+", tag=0, ignorable=True)


class ShareGroupTargetAssignmentMemberKey(CoordinatorKey, record_type=13, versions="0"):
    """A member of a share group."""

    group_id: str = field("0")
    member_id: str = field("0")


class TopicPartition(Struct):
    topic_id: Uuid = field("0+")
    partitions: list[Int32] = field("0+")


class ShareGroupTargetAssignmentMemberValue(
    CoordinatorValue,
    record_type=13,
    versions="0",
    flexible="0+",
):
    """What the member is to read."""

    topic_partitions: list[TopicPartition] = field("0+")


class ShareGroupCurrentMemberAssignmentKey(CoordinatorKey, record_type=14, versions="0"):
    """A member of a share group."""

    group_id: str = field("0")
    member_id: str = field("0")


class TopicPartitions(Struct):
    topic_id: Uuid = field("0+")
    partitions: list[Int32] = field("0+")


class ShareGroupCurrentMemberAssignmentValue(
    CoordinatorValue,
    record_type=14,
    versions="0",
    flexible="0+",
):
    """What the member reads now."""

    member_epoch: Int32 = field("0+")
    previous_member_epoch: Int32 = field("0+")
    state: Int8 = field("0+")
    assigned_partitions: list[TopicPartitions] = field("0+")


class ShareGroupStatePartitionMetadataKey(CoordinatorKey, record_type=15, versions="0"):
    """A share group."""

    group_id: str = field("0")


class TopicPartitionsInfo(Struct):
    topic_id: Uuid = field("0+")
    topic_name: str = field("0+")
    partitions: list[Int32] = field("0+")


class TopicInfo(Struct):
    topic_id: Uuid = field("0+")
    topic_name: str = field("0+")


class ShareGroupStatePartitionMetadataValue(
    CoordinatorValue,
    record_type=15,
    versions="0",
    flexible="0+",
):
    """Which share partitions are being initialized, are initialized or are being deleted."""

    initializing_topics: list[TopicPartitionsInfo] = field("0+")
    initialized_topics: list[TopicPartitionsInfo] = field("0+")
    deleting_topics: list[TopicInfo] = field("0+")
