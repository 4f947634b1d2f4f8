"""CreatePartitions, key 37. Adds partitions to topics."""

from kaa.wire.schema import Int16, Int32, Request, Response, Struct, field


class CreatePartitionsAssignment(Struct):
    broker_ids: list[Int32] = field("0+")


class CreatePartitionsTopic(Struct):
    name: str = field("0+")
    count: Int32 = field("0+")
    assignments: list[CreatePartitionsAssignment] | None = field("0+")


class CreatePartitionsRequest(
    Request["CreatePartitionsResponse"],
    key=37,
    versions="0-3",
    flexible="2+",
    listeners=("broker", "controller"),
):
    topics: list[CreatePartitionsTopic] = field("0+")
    timeout_ms: Int32 = field("0+")
    validate_only: bool = field("0+")


class CreatePartitionsTopicResult(Struct):
    name: str = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", default=None)


class CreatePartitionsResponse(Response, key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    results: list[CreatePartitionsTopicResult] = field("0+")
