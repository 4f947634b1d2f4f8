"""LeaveGroup, key 13. Removes members from a classic group."""

from kaa.wire.schema import Int16, Int32, Request, Response, Struct, field


class MemberIdentity(Struct):
    member_id: str = field("3+")
    group_instance_id: str | None = field("3+", default=None)
    reason: str | None = field("5+", default=None, ignorable=True)


class LeaveGroupRequest(Request["LeaveGroupResponse"], key=13, versions="0-5", flexible="4+"):
    group_id: str = field("0+")
    member_id: str = field("0-2")
    members: list[MemberIdentity] = field("3+")


class MemberResponse(Struct):
    member_id: str = field("3+")
    group_instance_id: str | None = field("3+")
    error_code: Int16 = field("3+")


class LeaveGroupResponse(Response, key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field("0+")
    members: list[MemberResponse] = field("3+")
