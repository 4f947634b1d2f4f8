"""CreateAcls, key 30. Creates access-control entries."""

from kaa.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class AclCreation(Struct):
    resource_type: Int8 = field("0+")
    resource_name: str = field("0+")
    resource_pattern_type: Int8 = field("1+", default=3)
    principal: str = field("0+")
    host: str = field("0+")
    operation: Int8 = field("0+")
    permission_type: Int8 = field("0+")


class CreateAclsRequest(
    Request["CreateAclsResponse"],
    key=30,
    versions="1-3",
    flexible="2+",
    listeners=("broker", "controller"),
):
    creations: list[AclCreation] = field("0+")


class AclCreationResult(Struct):
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")


class CreateAclsResponse(Response, key=30, versions="1-3", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    results: list[AclCreationResult] = field("0+")
