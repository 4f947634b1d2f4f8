"""DescribeTopicPartitions, key 75. Describes the partitions of topics, page by page."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Request, Response, Struct, field


class TopicRequest(Struct):
    name: str = field("0+")


class Cursor(Struct):
    topic_name: str = field("0+")
    partition_index: Int32 = field("0+")


class DescribeTopicPartitionsRequest(
    Request["DescribeTopicPartitionsResponse"], key=75, versions="0", flexible="0+"
):
    topics: list[TopicRequest] = field("0+")
    response_partition_limit: Int32 = field("0+", default=2000)
    cursor: Cursor | None = field("0+", default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: Int16 = field("0+")
    partition_index: Int32 = field("0+")
    leader_id: Int32 = field("0+")
    leader_epoch: Int32 = field("0+", default=-1, ignorable=True)
    replica_nodes: list[Int32] = field("0+")
    isr_nodes: list[Int32] = field("0+")
    eligible_leader_replicas: list[Int32] | None = field("0+", default=None)
    last_known_elr: list[Int32] | None = field("0+", default=None)
    offline_replicas: list[Int32] = field("0+", ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: Int16 = field("0+")
    name: str | None = field("0+")
    topic_id: Uuid = field("0+", ignorable=True)
    is_internal: bool = field("0+", ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field("0+")
    topic_authorized_operations: Int32 = field("0+", default=-2147483648)


class DescribeTopicPartitionsResponse(Response, key=75, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+", ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = field("0+")
    next_cursor: Cursor | None = field("0+", default=None)
