"""AlterShareGroupOffsets, key 91. Changes the start offsets of a share group."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: Int32 = field("0+")
    start_offset: Int64 = field("0+")


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field("0+")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field("0+")


class AlterShareGroupOffsetsRequest(
    Request["AlterShareGroupOffsetsResponse"], key=91, versions="0", flexible="0+"
):
    group_id: str = field("0+")
    topics: list[AlterShareGroupOffsetsRequestTopic] = field("0+")


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field("0+")
    topic_id: Uuid = field("0+")
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field("0+")


class AlterShareGroupOffsetsResponse(Response, key=91, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = field("0+")
