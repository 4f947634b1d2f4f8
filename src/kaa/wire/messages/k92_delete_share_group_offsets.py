"""DeleteShareGroupOffsets, key 92. Deletes the start offsets of a share group."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Request, Response, Struct, field


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field("0+")


class DeleteShareGroupOffsetsRequest(
    Request["DeleteShareGroupOffsetsResponse"], key=92, versions="0", flexible="0+"
):
    group_id: str = field("0+")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field("0+")


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field("0+")
    topic_id: Uuid = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", default=None)


class DeleteShareGroupOffsetsResponse(Response, key=92, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field("0+")
