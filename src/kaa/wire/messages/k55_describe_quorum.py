"""DescribeQuorum, key 55. Describes the metadata quorum: leader, voters, observers and how far
each has replicated.
"""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Int64, Request, Response, Struct, Uint16, field


class RequestPartitionData(Struct):
    partition_index: Int32 = field("0+")


class RequestTopicData(Struct):
    topic_name: str = field("0+")
    partitions: list[RequestPartitionData] = field("0+")


class DescribeQuorumRequest(
    Request["DescribeQuorumResponse"],
    key=55,
    versions="0-2",
    flexible="0+",
    listeners=("broker", "controller"),
):
    topics: list[RequestTopicData] = field("0+")


class ReplicaState(Struct):
    replica_id: Int32 = field("0+")
    replica_directory_id: Uuid = field("2+")
    log_end_offset: Int64 = field("0+")
    last_fetch_timestamp: Int64 = field("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = field("1+", default=-1, ignorable=True)


class ResponsePartitionData(Struct):
    partition_index: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("2+", ignorable=True)
    leader_id: Int32 = field("0+")
    leader_epoch: Int32 = field("0+")
    high_watermark: Int64 = field("0+")
    current_voters: list[ReplicaState] = field("0+")
    observers: list[ReplicaState] = field("0+")


class ResponseTopicData(Struct):
    topic_name: str = field("0+")
    partitions: list[ResponsePartitionData] = field("0+")


class Listener(Struct):
    name: str = field("2+")
    host: str = field("2+")
    port: Uint16 = field("2+")


class Node(Struct):
    node_id: Int32 = field("2+")
    listeners: list[Listener] = field("2+")


class DescribeQuorumResponse(Response, key=55, versions="0-2", flexible="0+"):
    error_code: Int16 = field("0+")
    error_message: str | None = field("2+", ignorable=True)
    topics: list[ResponseTopicData] = field("0+")
    nodes: list[Node] = field("2+")
