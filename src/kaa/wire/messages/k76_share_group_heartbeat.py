"""ShareGroupHeartbeat, key 76. Joins, keeps alive and leaves a share group (KIP-932)."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Request, Response, Struct, field


class ShareGroupHeartbeatRequest(
    Request["ShareGroupHeartbeatResponse"], key=76, versions="1", flexible="0+"
):
    group_id: str = field("0+")
    member_id: str = field("0+")
    member_epoch: Int32 = field("0+")
    rack_id: str | None = field("0+", default=None)
    subscribed_topic_names: list[str] | None = field("0+", default=None)


class TopicPartitions(Struct):
    topic_id: Uuid = field("0+")
    partitions: list[Int32] = field("0+")


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field("0+")


class ShareGroupHeartbeatResponse(Response, key=76, versions="1", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", default=None)
    member_id: str | None = field("0+", default=None)
    member_epoch: Int32 = field("0+")
    heartbeat_interval_ms: Int32 = field("0+")
    assignment: Assignment | None = field("0+", default=None)
