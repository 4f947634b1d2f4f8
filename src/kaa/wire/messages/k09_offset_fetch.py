"""OffsetFetch, key 9. Reads the stored positions of consumer groups."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field


class OffsetFetchRequestTopic(Struct):
    name: str = field("0-7")
    partition_indexes: list[Int32] = field("0-7")


class OffsetFetchRequestTopics(Struct):
    name: str = field("8-9", ignorable=True)
    topic_id: Uuid = field("10+", ignorable=True)
    partition_indexes: list[Int32] = field("8+")


class OffsetFetchRequestGroup(Struct):
    group_id: str = field("8+")
    member_id: str | None = field("9+", default=None, ignorable=True)
    member_epoch: Int32 = field("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field("8+")


class OffsetFetchRequest(Request["OffsetFetchResponse"], key=9, versions="1-10", flexible="6+"):
    group_id: str = field("0-7")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field("8+")
    require_stable: bool = field("7+")


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32 = field("0-7")
    committed_offset: Int64 = field("0-7")
    committed_leader_epoch: Int32 = field("5-7", default=-1, ignorable=True)
    metadata: str | None = field("0-7")
    error_code: Int16 = field("0-7")


class OffsetFetchResponseTopic(Struct):
    name: str = field("0-7")
    partitions: list[OffsetFetchResponsePartition] = field("0-7")


class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32 = field("8+")
    committed_offset: Int64 = field("8+")
    committed_leader_epoch: Int32 = field("8+", default=-1, ignorable=True)
    metadata: str | None = field("8+")
    error_code: Int16 = field("8+")


class OffsetFetchResponseTopics(Struct):
    name: str = field("8-9", ignorable=True)
    topic_id: Uuid = field("10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field("8+")


class OffsetFetchResponseGroup(Struct):
    group_id: str = field("8+")
    topics: list[OffsetFetchResponseTopics] = field("8+")
    error_code: Int16 = field("8+")


class OffsetFetchResponse(Response, key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: Int32 = field("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field("0-7")
    error_code: Int16 = field("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field("8+")
