"""DeleteTopics, key 20. Deletes topics by name or by id."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Request, Response, Struct, field


class DeleteTopicState(Struct):
    name: str | None = field("6+", default=None)
    topic_id: Uuid = field("6+")


class DeleteTopicsRequest(
    Request["DeleteTopicsResponse"],
    key=20,
    versions="1-6",
    flexible="4+",
    listeners=("broker", "controller"),
):
    topics: list[DeleteTopicState] = field("6+")
    topic_names: list[str] = field("0-5", ignorable=True)
    timeout_ms: Int32 = field("0+")


class DeletableTopicResult(Struct):
    name: str | None = field("0+", nullable="6+")
    topic_id: Uuid = field("6+", ignorable=True)
    error_code: Int16 = field("0+")
    error_message: str | None = field("5+", default=None, ignorable=True)


class DeleteTopicsResponse(Response, key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    responses: list[DeletableTopicResult] = field("0+")
