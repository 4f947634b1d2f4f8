"""DeleteAcls, key 31. Deletes access-control entries that match filters."""

from kaa.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class DeleteAclsFilter(Struct):
    resource_type_filter: Int8 = field("0+")
    resource_name_filter: str | None = field("0+")
    pattern_type_filter: Int8 = field("1+", default=3)
    principal_filter: str | None = field("0+")
    host_filter: str | None = field("0+")
    operation: Int8 = field("0+")
    permission_type: Int8 = field("0+")


class DeleteAclsRequest(
    Request["DeleteAclsResponse"],
    key=31,
    versions="1-3",
    flexible="2+",
    listeners=("broker", "controller"),
):
    filters: list[DeleteAclsFilter] = field("0+")


class DeleteAclsMatchingAcl(Struct):
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")
    resource_type: Int8 = field("0+")
    resource_name: str = field("0+")
    pattern_type: Int8 = field("1+", default=3)
    principal: str = field("0+")
    host: str = field("0+")
    operation: Int8 = field("0+")
    permission_type: Int8 = field("0+")


class DeleteAclsFilterResult(Struct):
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")
    matching_acls: list[DeleteAclsMatchingAcl] = field("0+")


class DeleteAclsResponse(Response, key=31, versions="1-3", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    filter_results: list[DeleteAclsFilterResult] = field("0+")
