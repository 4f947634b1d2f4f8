"""OffsetCommit, key 8. Stores the positions of a consumer group."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32 = field("0+")
    committed_offset: Int64 = field("0+")
    committed_leader_epoch: Int32 = field("6+", default=-1, ignorable=True)
    committed_metadata: str | None = field("0+")


class OffsetCommitRequestTopic(Struct):
    name: str = field("0-9", ignorable=True)
    topic_id: Uuid = field("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field("0+")


class OffsetCommitRequest(Request["OffsetCommitResponse"], key=8, versions="2-10", flexible="8+"):
    group_id: str = field("0+")
    generation_id_or_member_epoch: Int32 = field("1+", default=-1, ignorable=True)
    member_id: str = field("1+", ignorable=True)
    group_instance_id: str | None = field("7+", default=None)
    retention_time_ms: Int64 = field("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field("0+")


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32 = field("0+")
    error_code: Int16 = field("0+")


class OffsetCommitResponseTopic(Struct):
    name: str = field("0-9", ignorable=True)
    topic_id: Uuid = field("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = field("0+")


class OffsetCommitResponse(Response, key=8, versions="2-10", flexible="8+"):
    throttle_time_ms: Int32 = field("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field("0+")
