"""DeleteGroups, key 42. Deletes groups."""

from kaa.wire.schema import Int16, Int32, Request, Response, Struct, field


class DeleteGroupsRequest(Request["DeleteGroupsResponse"], key=42, versions="0-2", flexible="2+"):
    groups_names: list[str] = field("0+")


class DeletableGroupResult(Struct):
    group_id: str = field("0+")
    error_code: Int16 = field("0+")


class DeleteGroupsResponse(Response, key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    results: list[DeletableGroupResult] = field("0+")
