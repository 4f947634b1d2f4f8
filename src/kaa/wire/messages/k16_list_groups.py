"""ListGroups, key 16. Lists the groups that a broker coordinates."""

from kaa.wire.schema import Int16, Int32, Request, Response, Struct, field


class ListGroupsRequest(Request["ListGroupsResponse"], key=16, versions="0-5", flexible="3+"):
    states_filter: list[str] = field("4+")
    types_filter: list[str] = field("5+")


class ListedGroup(Struct):
    group_id: str = field("0+")
    protocol_type: str = field("0+")
    group_state: str = field("4+", ignorable=True)
    group_type: str = field("5+", ignorable=True)


class ListGroupsResponse(Response, key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field("0+")
    groups: list[ListedGroup] = field("0+")
