"""FetchSnapshot, key 59. Reads a piece of a metadata snapshot."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Int64, Records, Request, Response, Struct, Uint16, field


class SnapshotId(Struct):
    end_offset: Int64 = field("0+")
    epoch: Int32 = field("0+")


class RequestPartitionSnapshot(Struct):
    partition: Int32 = field("0+")
    current_leader_epoch: Int32 = field("0+")
    snapshot_id: SnapshotId = field("0+")
    position: Int64 = field("0+")
    replica_directory_id: Uuid = field("1+", tag=0, ignorable=True)


class RequestTopicSnapshot(Struct):
    name: str = field("0+")
    partitions: list[RequestPartitionSnapshot] = field("0+")


class FetchSnapshotRequest(
    Request["FetchSnapshotResponse"],
    key=59,
    versions="0-1",
    flexible="0+",
    listeners=("controller",),
):
    cluster_id: str | None = field("0+", default=None, tag=0)
    replica_id: Int32 = field("0+", default=-1)
    max_bytes: Int32 = field("0+", default=2147483647)
    topics: list[RequestTopicSnapshot] = field("0+")


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = field("0+")
    leader_epoch: Int32 = field("0+")


class ResponsePartitionSnapshot(Struct):
    index: Int32 = field("0+")
    error_code: Int16 = field("0+")
    snapshot_id: SnapshotId = field("0+")
    current_leader: LeaderIdAndEpoch | None = field("0+", tag=0)
    size: Int64 = field("0+")
    position: Int64 = field("0+")
    unaligned_records: Records = field("0+")


class ResponseTopicSnapshot(Struct):
    name: str = field("0+")
    partitions: list[ResponsePartitionSnapshot] = field("0+")


class NodeEndpoint(Struct):
    node_id: Int32 = field("1+")
    host: str = field("1+")
    port: Uint16 = field("1+")


class FetchSnapshotResponse(Response, key=59, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = field("0+", ignorable=True)
    error_code: Int16 = field("0+")
    topics: list[ResponseTopicSnapshot] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)
