"""OffsetDelete, key 47. Deletes stored positions of a group."""

from kaa.wire.schema import Int16, Int32, Request, Response, Struct, field


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32 = field("0+")


class OffsetDeleteRequestTopic(Struct):
    name: str = field("0+")
    partitions: list[OffsetDeleteRequestPartition] = field("0+")


class OffsetDeleteRequest(Request["OffsetDeleteResponse"], key=47, versions="0"):
    group_id: str = field("0+")
    topics: list[OffsetDeleteRequestTopic] = field("0+")


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32 = field("0+")
    error_code: Int16 = field("0+")


class OffsetDeleteResponseTopic(Struct):
    name: str = field("0+")
    partitions: list[OffsetDeleteResponsePartition] = field("0+")


class OffsetDeleteResponse(Response, key=47, versions="0"):
    error_code: Int16 = field("0+")
    throttle_time_ms: Int32 = field("0+", ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = field("0+")
