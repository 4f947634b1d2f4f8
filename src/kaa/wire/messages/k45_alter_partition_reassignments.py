"""AlterPartitionReassignments, key 45. Starts or cancels reassignments of partitions."""

from kaa.wire.schema import Int16, Int32, Request, Response, Struct, field


class ReassignablePartition(Struct):
    partition_index: Int32 = field("0+")
    replicas: list[Int32] | None = field("0+", default=None)


class ReassignableTopic(Struct):
    name: str = field("0+")
    partitions: list[ReassignablePartition] = field("0+")


class AlterPartitionReassignmentsRequest(
    Request["AlterPartitionReassignmentsResponse"],
    key=45,
    versions="0-1",
    flexible="0+",
    listeners=("broker", "controller"),
):
    timeout_ms: Int32 = field("0+", default=60000)
    allow_replication_factor_change: bool = field("1+", default=True)
    topics: list[ReassignableTopic] = field("0+")


class ReassignablePartitionResponse(Struct):
    partition_index: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")


class ReassignableTopicResponse(Struct):
    name: str = field("0+")
    partitions: list[ReassignablePartitionResponse] = field("0+")


class AlterPartitionReassignmentsResponse(Response, key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    allow_replication_factor_change: bool = field("1+", default=True, ignorable=True)
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")
    responses: list[ReassignableTopicResponse] = field("0+")
