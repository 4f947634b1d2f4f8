"""Records of the offsets topic: streams groups (KIP-1071)."""

from kaa.wire.schema import (
    CoordinatorKey,
    CoordinatorValue,
    Int8,
    Int16,
    Int32,
    Int64,
    Struct,
    Uint16,
    field,
)


class StreamsGroupMetadataKey(CoordinatorKey, record_type=17, versions="0"):
    """A streams group."""

    group_id: str = field("0")


class LastAssignmentConfig(Struct):
    key: str = field("0+")
    value: str = field("0+")


class StreamsGroupMetadataValue(CoordinatorValue, record_type=17, versions="0", flexible="0+"):
    """The group's epochs and the hash of the topics it sees."""

    epoch: Int32 = field("0+")
    metadata_hash: Int64 = field("0+")
    validated_topology_epoch: Int32 = field("0+", default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = field("0+", tag=1)


class StreamsGroupMemberMetadataKey(CoordinatorKey, record_type=19, versions="0"):
    """A member of a streams group."""

    group_id: str = field("0")
    member_id: str = field("0")


class Endpoint(Struct):
    host: str = field("0+")
    port: Uint16 = field("0+")


class KeyValue(Struct):
    key: str = field("0+")
    value: str = field("0+")


class StreamsGroupMemberMetadataValue(
    CoordinatorValue,
    record_type=19,
    versions="0",
    flexible="0+",
):
    """The member's topology epoch, process, tags and client facts."""

    instance_id: str | None = field("0+")
    rack_id: str | None = field("0+")
    client_id: str = field("0+")
    client_host: str = field("0+")
    rebalance_timeout_ms: Int32 = field("0+", default=-1)
    topology_epoch: Int32 = field("0+")
    process_id: str = field("0+")
    user_endpoint: Endpoint | None = field("0+", default=None)
    client_tags: list[KeyValue] = field("0+")


class StreamsGroupTargetAssignmentMetadataKey(CoordinatorKey, record_type=20, versions="0"):
    """A streams group."""

    group_id: str = field("0")


class StreamsGroupTargetAssignmentMetadataValue(
    CoordinatorValue,
    record_type=20,
    versions="0",
    flexible="0+",
):
    """The epoch of the group's target assignment."""

    assignment_epoch: Int32 = field("0+")
    assignment_timestamp: Int64 = field("0+", tag=0, ignorable=True)


class StreamsGroupTargetAssignmentMemberKey(CoordinatorKey, record_type=21, versions="0"):
    """A member of a streams group."""

    group_id: str = field("0")
    member_id: str = field("0")


class TargetAssignmentMemberTaskIds(Struct):
    subtopology_id: str = field("0+")
    partitions: list[Int32] = field("0+")


class StreamsGroupTargetAssignmentMemberValue(
    CoordinatorValue,
    record_type=21,
    versions="0",
    flexible="0+",
):
    """The tasks that the member is to run."""

    active_tasks: list[TargetAssignmentMemberTaskIds] = field("0+")
    standby_tasks: list[TargetAssignmentMemberTaskIds] = field("0+")
    warmup_tasks: list[TargetAssignmentMemberTaskIds] = field("0+")


class StreamsGroupCurrentMemberAssignmentKey(CoordinatorKey, record_type=22, versions="0"):
    """A member of a streams group."""

    group_id: str = field("0")
    member_id: str = field("0")


class CurrentMemberAssignmentTaskIds(Struct):
    subtopology_id: str = field("0+")
    partitions: list[Int32] = field("0+")
    assignment_epochs: list[Int32] | None = field("0+", tag=0)


class StreamsGroupCurrentMemberAssignmentValue(
    CoordinatorValue,
    record_type=22,
    versions="0",
    flexible="0+",
):
    """The tasks that the member runs now and those it must still give up."""

    member_epoch: Int32 = field("0+")
    previous_member_epoch: Int32 = field("0+")
    state: Int8 = field("0+")
    active_tasks: list[CurrentMemberAssignmentTaskIds] = field("0+")
    standby_tasks: list[CurrentMemberAssignmentTaskIds] = field("0+")
    warmup_tasks: list[CurrentMemberAssignmentTaskIds] = field("0+")
    active_tasks_pending_revocation: list[CurrentMemberAssignmentTaskIds] = field("0+")
    standby_tasks_pending_revocation: list[CurrentMemberAssignmentTaskIds] = field("0+")
    warmup_tasks_pending_revocation: list[CurrentMemberAssignmentTaskIds] = field("0+")


class StreamsGroupTopologyKey(CoordinatorKey, record_type=23, versions="0"):
    """A streams group."""

    group_id: str = field("0")


class TopicConfig(Struct):
    key: str = field("0+")
    value: str = field("0+")


class TopicInfo(Struct):
    name: str = field("0+")
    partitions: Int32 = field("0+")
    replication_factor: Int16 = field("0+")
    topic_configs: list[TopicConfig] = field("0+")


class CopartitionGroup(Struct):
    source_topics: list[Int16] = field("0+")
    source_topic_regex: list[Int16] = field("0+")
    repartition_source_topics: list[Int16] = field("0+")


class Subtopology(Struct):
    subtopology_id: str = field("0+")
    source_topics: list[str] = field("0+")
    source_topic_regex: list[str] = field("0+")
    state_changelog_topics: list[TopicInfo] = field("0+")
    repartition_sink_topics: list[str] = field("0+")
    repartition_source_topics: list[TopicInfo] = field("0+")
    copartition_groups: list[CopartitionGroup] = field("0+")


class StreamsGroupTopologyValue(CoordinatorValue, record_type=23, versions="0", flexible="0+"):
    """The topology that the group runs."""

    epoch: Int32 = field("0+")
    subtopologies: list[Subtopology] = field("0+")
