"""Records of the remote-log-metadata topic (KIP-405)."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int8, Int32, Int64, MetadataRecord, Struct, field


class TopicIdPartitionEntry(Struct):
    name: str = field("0+")
    id: Uuid = field("0+")
    partition: Int32 = field("0+")


class RemoteLogSegmentIdEntry(Struct):
    topic_id_partition: TopicIdPartitionEntry = field("0+")
    id: Uuid = field("0+")


class SegmentLeaderEpochEntry(Struct):
    leader_epoch: Int32 = field("0+")
    offset: Int64 = field("0+")


class RemoteLogSegmentMetadataRecord(MetadataRecord, record_type=0, versions="0", flexible="0+"):
    """A segment is being copied to remote storage."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = field("0+")
    start_offset: Int64 = field("0+")
    end_offset: Int64 = field("0+")
    broker_id: Int32 = field("0+")
    max_timestamp_ms: Int64 = field("0+")
    event_timestamp_ms: Int64 = field("0+")
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field("0+")
    segment_size_in_bytes: Int32 = field("0+")
    custom_metadata: bytes | None = field("0+", default=None)
    remote_log_segment_state: Int8 = field("0+")
    txn_index_empty: bool = field("0+", tag=0)


class RemoteLogSegmentMetadataSnapshotRecord(
    MetadataRecord,
    record_type=3,
    versions="0",
    flexible="0+",
):
    """A remote segment as kept in a snapshot of the metadata."""

    segment_id: Uuid = field("0+")
    start_offset: Int64 = field("0+")
    end_offset: Int64 = field("0+")
    broker_id: Int32 = field("0+")
    max_timestamp_ms: Int64 = field("0+")
    event_timestamp_ms: Int64 = field("0+")
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field("0+")
    segment_size_in_bytes: Int32 = field("0+")
    custom_metadata: bytes | None = field("0+", default=None)
    remote_log_segment_state: Int8 = field("0+")
    txn_index_empty: bool = field("0+", tag=0)


class RemoteLogSegmentMetadataUpdateRecord(
    MetadataRecord,
    record_type=1,
    versions="0",
    flexible="0+",
):
    """The state of a remote segment changed."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = field("0+")
    broker_id: Int32 = field("0+")
    event_timestamp_ms: Int64 = field("0+")
    custom_metadata: bytes | None = field("0+", default=None)
    remote_log_segment_state: Int8 = field("0+")


class RemotePartitionDeleteMetadataRecord(
    MetadataRecord,
    record_type=2,
    versions="0",
    flexible="0+",
):
    """The remote data of a partition is being deleted."""

    topic_id_partition: TopicIdPartitionEntry = field("0+")
    broker_id: Int32 = field("0+")
    event_timestamp_ms: Int64 = field("0+")
    remote_partition_delete_state: Int8 = field("0+")
