"""Fetch, key 1. Reads record batches, for consumers, for followers and, on the controller
listener, for the metadata quorum.
"""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int8, Int16, Int32, Int64, Records, Request, Response, Struct, field


class ReplicaState(Struct):
    replica_id: Int32 = field("15+", default=-1)
    replica_epoch: Int64 = field("15+", default=-1)


class FetchPartition(Struct):
    partition: Int32 = field("0+")
    current_leader_epoch: Int32 = field("9+", default=-1, ignorable=True)
    fetch_offset: Int64 = field("0+")
    last_fetched_epoch: Int32 = field("12+", default=-1)
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    partition_max_bytes: Int32 = field("0+")
    replica_directory_id: Uuid = field("17+", tag=0, ignorable=True)
    high_watermark: Int64 = field("18+", default=9223372036854775807, tag=1, ignorable=True)


class FetchTopic(Struct):
    topic: str = field("0-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partitions: list[FetchPartition] = field("0+")


class ForgottenTopic(Struct):
    topic: str = field("7-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partitions: list[Int32] = field("7+")


class FetchRequest(
    Request["FetchResponse"],
    key=1,
    versions="4-18",
    flexible="12+",
    listeners=("broker", "controller"),
):
    cluster_id: str | None = field("12+", default=None, tag=0, ignorable=True)
    replica_id: Int32 = field("0-14", default=-1)
    replica_state: ReplicaState | None = field("15+", tag=1)
    max_wait_ms: Int32 = field("0+")
    min_bytes: Int32 = field("0+")
    max_bytes: Int32 = field("3+", default=2147483647, ignorable=True)
    isolation_level: Int8 = field("4+", ignorable=True)
    session_id: Int32 = field("7+", ignorable=True)
    session_epoch: Int32 = field("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = field("0+")
    forgotten_topics_data: list[ForgottenTopic] = field("7+")
    rack_id: str = field("11+", ignorable=True)


class EpochEndOffset(Struct):
    epoch: Int32 = field("12+", default=-1)
    end_offset: Int64 = field("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = field("12+", default=-1)
    leader_epoch: Int32 = field("12+", default=-1)


class SnapshotId(Struct):
    end_offset: Int64 = field("0+", default=-1)
    epoch: Int32 = field("0+", default=-1)


class AbortedTransaction(Struct):
    producer_id: Int64 = field("4+")
    first_offset: Int64 = field("4+")


class PartitionData(Struct):
    partition_index: Int32 = field("0+")
    error_code: Int16 = field("0+")
    high_watermark: Int64 = field("0+")
    last_stable_offset: Int64 = field("4+", default=-1, ignorable=True)
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = field("12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = field("12+", tag=1)
    snapshot_id: SnapshotId | None = field("12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field("4+", ignorable=True)
    preferred_read_replica: Int32 = field("11+", default=-1)
    records: Records | None = field("0+")


class FetchableTopicResponse(Struct):
    topic: str = field("0-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partitions: list[PartitionData] = field("0+")


class NodeEndpoint(Struct):
    node_id: Int32 = field("16+")
    host: str = field("16+")
    port: Int32 = field("16+")
    rack: str | None = field("16+", default=None)


class FetchResponse(Response, key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field("7+", ignorable=True)
    session_id: Int32 = field("7+")
    responses: list[FetchableTopicResponse] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0)
