"""DeleteShareGroupState, key 86. Deletes the durable state of share partitions."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Request, Response, Struct, field


class PartitionData(Struct):
    partition: Int32 = field("0+")


class DeleteStateData(Struct):
    topic_id: Uuid = field("0+")
    partitions: list[PartitionData] = field("0+")


class DeleteShareGroupStateRequest(
    Request["DeleteShareGroupStateResponse"], key=86, versions="0", flexible="0+"
):
    group_id: str = field("0+")
    topics: list[DeleteStateData] = field("0+")


class PartitionResult(Struct):
    partition: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", default=None)


class DeleteStateResult(Struct):
    topic_id: Uuid = field("0+")
    partitions: list[PartitionResult] = field("0+")


class DeleteShareGroupStateResponse(Response, key=86, versions="0", flexible="0+"):
    results: list[DeleteStateResult] = field("0+")
