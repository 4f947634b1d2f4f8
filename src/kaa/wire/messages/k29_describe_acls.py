"""DescribeAcls, key 29. Lists access-control entries that match a filter."""

from kaa.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class DescribeAclsRequest(
    Request["DescribeAclsResponse"],
    key=29,
    versions="1-3",
    flexible="2+",
    listeners=("broker", "controller"),
):
    resource_type_filter: Int8 = field("0+")
    resource_name_filter: str | None = field("0+")
    pattern_type_filter: Int8 = field("1+", default=3)
    principal_filter: str | None = field("0+")
    host_filter: str | None = field("0+")
    operation: Int8 = field("0+")
    permission_type: Int8 = field("0+")


class AclDescription(Struct):
    principal: str = field("0+")
    host: str = field("0+")
    operation: Int8 = field("0+")
    permission_type: Int8 = field("0+")


class DescribeAclsResource(Struct):
    resource_type: Int8 = field("0+")
    resource_name: str = field("0+")
    pattern_type: Int8 = field("1+", default=3)
    acls: list[AclDescription] = field("0+")


class DescribeAclsResponse(Response, key=29, versions="1-3", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")
    resources: list[DescribeAclsResource] = field("0+")
