"""ListConfigResources, key 74. Lists configuration resources by type."""

from kaa.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class ListConfigResourcesRequest(
    Request["ListConfigResourcesResponse"], key=74, versions="0-1", flexible="0+"
):
    resource_types: list[Int8] = field("1+")


class ConfigResource(Struct):
    resource_name: str = field("0+")
    resource_type: Int8 = field("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Response, key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    config_resources: list[ConfigResource] = field("0+")
