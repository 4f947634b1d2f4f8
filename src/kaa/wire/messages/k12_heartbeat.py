"""Heartbeat, key 12. Keeps a member of a classic group alive and tells it of rebalances."""

from kaa.wire.schema import Int16, Int32, Request, Response, field


class HeartbeatRequest(Request["HeartbeatResponse"], key=12, versions="0-4", flexible="4+"):
    group_id: str = field("0+")
    generation_id: Int32 = field("0+")
    member_id: str = field("0+")
    group_instance_id: str | None = field("3+", default=None)


class HeartbeatResponse(Response, key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field("0+")
