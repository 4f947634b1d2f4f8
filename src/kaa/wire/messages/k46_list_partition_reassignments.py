"""ListPartitionReassignments, key 46. Lists reassignments under way."""

from kaa.wire.schema import Int16, Int32, Request, Response, Struct, field


class ListPartitionReassignmentsTopics(Struct):
    name: str = field("0+")
    partition_indexes: list[Int32] = field("0+")


class ListPartitionReassignmentsRequest(
    Request["ListPartitionReassignmentsResponse"],
    key=46,
    versions="0",
    flexible="0+",
    listeners=("broker", "controller"),
):
    timeout_ms: Int32 = field("0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field("0+", default=None)


class OngoingPartitionReassignment(Struct):
    partition_index: Int32 = field("0+")
    replicas: list[Int32] = field("0+")
    adding_replicas: list[Int32] = field("0+")
    removing_replicas: list[Int32] = field("0+")


class OngoingTopicReassignment(Struct):
    name: str = field("0+")
    partitions: list[OngoingPartitionReassignment] = field("0+")


class ListPartitionReassignmentsResponse(Response, key=46, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")
    topics: list[OngoingTopicReassignment] = field("0+")
