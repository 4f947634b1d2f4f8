"""ListOffsets, key 2. Looks up offsets of partitions by timestamp or by a special position such as
earliest or latest.
"""

from kaa.wire.schema import Int8, Int16, Int32, Int64, Request, Response, Struct, field


class ListOffsetsPartition(Struct):
    partition_index: Int32 = field("0+")
    current_leader_epoch: Int32 = field("4+", default=-1, ignorable=True)
    timestamp: Int64 = field("0+")


class ListOffsetsTopic(Struct):
    name: str = field("0+")
    partitions: list[ListOffsetsPartition] = field("0+")


class ListOffsetsRequest(Request["ListOffsetsResponse"], key=2, versions="1-11", flexible="6+"):
    replica_id: Int32 = field("0+")
    isolation_level: Int8 = field("2+")
    topics: list[ListOffsetsTopic] = field("0+")
    timeout_ms: Int32 = field("10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32 = field("0+")
    error_code: Int16 = field("0+")
    timestamp: Int64 = field("1+", default=-1)
    offset: Int64 = field("1+", default=-1)
    leader_epoch: Int32 = field("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = field("0+")
    partitions: list[ListOffsetsPartitionResponse] = field("0+")


class ListOffsetsResponse(Response, key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: Int32 = field("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field("0+")
