"""Records of the offsets topic: consumer groups (KIP-848)."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import CoordinatorKey, CoordinatorValue, Int8, Int32, Int64, Struct, field


class ConsumerGroupMetadataKey(CoordinatorKey, record_type=3, versions="0"):
    """A consumer group."""

    group_id: str = field("0")


class ConsumerGroupMetadataValue(CoordinatorValue, record_type=3, versions="0", flexible="0+"):
    """The group's epoch and the hash of the topics it sees."""

    epoch: Int32 = field("0+")
    metadata_hash: Int64 = field("0+", tag=0)


class ConsumerGroupPartitionMetadataKey(CoordinatorKey, record_type=4, versions="0"):
    """A consumer group; superseded by the metadata hash."""

    group_id: str = field("0")


class PartitionMetadata(Struct):
    partition: Int32 = field("0+")
    racks: list[str] = field("0+")


class TopicMetadata(Struct):
    topic_id: Uuid = field("0+")
    topic_name: str = field("0+")
    num_partitions: Int32 = field("0+")
    partition_metadata: list[PartitionMetadata] = field("0+")


class ConsumerGroupPartitionMetadataValue(
    CoordinatorValue,
    record_type=4,
    versions="0",
    flexible="0+",
):
    """The partitions and racks that the group saw."""

    topics: list[TopicMetadata] = field("0+")


class ConsumerGroupMemberMetadataKey(CoordinatorKey, record_type=5, versions="0"):
    """A member of a consumer group."""

    group_id: str = field("0")
    member_id: str = field("0")


class ClassicProtocol(Struct):
    name: str = field("0+")
    metadata: bytes = field("0+")


class ClassicMemberMetadata(Struct):
    session_timeout_ms: Int32 = field("0+")
    supported_protocols: list[ClassicProtocol] = field("0+")


class ConsumerGroupMemberMetadataValue(
    CoordinatorValue,
    record_type=5,
    versions="0",
    flexible="0+",
):
    """The member's subscription and client facts."""

    instance_id: str | None = field("0+")
    rack_id: str | None = field("0+")
    client_id: str = field("0+")
    client_host: str = field("0+")
    subscribed_topic_names: list[str] = field("0+")
    subscribed_topic_regex: str | None = field("0+")
    rebalance_timeout_ms: Int32 = field("0+", default=-1)
    server_assignor: str | None = field("0+")
    classic_member_metadata: ClassicMemberMetadata | None = field("0+", nullable="0+", tag=0)


class ConsumerGroupTargetAssignmentMetadataKey(CoordinatorKey, record_type=6, versions="0"):
    """A consumer group."""

    group_id: str = field("0")


class ConsumerGroupTargetAssignmentMetadataValue(
    CoordinatorValue,
    record_type=6,
    versions="0",
    flexible="0+",
):
    """The epoch of the group's target assignment."""

    assignment_epoch: Int32 = field("0+")
    assignment_timestamp: Int64 = field("0+", tag=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberKey(CoordinatorKey, record_type=7, versions="0"):
    """A member of a consumer group."""

    group_id: str = field("0")
    member_id: str = field("0")


class TopicPartition(Struct):
    topic_id: Uuid = field("0+")
    partitions: list[Int32] = field("0+")


class ConsumerGroupTargetAssignmentMemberValue(
    CoordinatorValue,
    record_type=7,
    versions="0",
    flexible="0+",
):
    """What the member is to own."""

    topic_partitions: list[TopicPartition] = field("0+")


class ConsumerGroupCurrentMemberAssignmentKey(CoordinatorKey, record_type=8, versions="0"):
    """A member of a consumer group."""

    group_id: str = field("0")
    member_id: str = field("0")


class TopicPartitions(Struct):
    topic_id: Uuid = field("0+")
    partitions: list[Int32] = field("0+")
    assignment_epochs: list[Int32] | None = field("0+", tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(
    CoordinatorValue,
    record_type=8,
    versions="0",
    flexible="0+",
):
    """What the member owns now and what it must still revoke."""

    member_epoch: Int32 = field("0+")
    previous_member_epoch: Int32 = field("0+")
    state: Int8 = field("0+")
    assigned_partitions: list[TopicPartitions] = field("0+")
    partitions_pending_revocation: list[TopicPartitions] = field("0+")


class ConsumerGroupRegularExpressionKey(CoordinatorKey, record_type=16, versions="0"):
    """A regular expression that a consumer group subscribes by."""

    group_id: str = field("0")
    regular_expression: str = field("0")


class ConsumerGroupRegularExpressionValue(
    CoordinatorValue,
    record_type=16,
    versions="0",
    flexible="0+",
):
    """The topics that the expression matched, and when."""

    topics: list[str] = field("0+")
    version: Int64 = field("0+")
    timestamp: Int64 = field("0+")
