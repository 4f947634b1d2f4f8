"""InitializeShareGroupState, key 83. Prepares the durable state of share partitions for a group."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field


class PartitionData(Struct):
    partition: Int32 = field("0+")
    state_epoch: Int32 = field("0+")
    start_offset: Int64 = field("0+")


class InitializeStateData(Struct):
    topic_id: Uuid = field("0+")
    partitions: list[PartitionData] = field("0+")


class InitializeShareGroupStateRequest(
    Request["InitializeShareGroupStateResponse"], key=83, versions="0", flexible="0+"
):
    group_id: str = field("0+")
    topics: list[InitializeStateData] = field("0+")


class PartitionResult(Struct):
    partition: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", default=None)


class InitializeStateResult(Struct):
    topic_id: Uuid = field("0+")
    partitions: list[PartitionResult] = field("0+")


class InitializeShareGroupStateResponse(Response, key=83, versions="0", flexible="0+"):
    results: list[InitializeStateResult] = field("0+")
