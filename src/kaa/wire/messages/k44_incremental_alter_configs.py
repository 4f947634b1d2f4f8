"""IncrementalAlterConfigs, key 44. Sets, unsets, appends to or subtracts from dynamic settings of
a resource.
"""

from kaa.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class AlterableConfig(Struct):
    name: str = field("0+")
    config_operation: Int8 = field("0+")
    value: str | None = field("0+")


class AlterConfigsResource(Struct):
    resource_type: Int8 = field("0+")
    resource_name: str = field("0+")
    configs: list[AlterableConfig] = field("0+")


class IncrementalAlterConfigsRequest(
    Request["IncrementalAlterConfigsResponse"],
    key=44,
    versions="0-1",
    flexible="1+",
    listeners=("broker", "controller"),
):
    resources: list[AlterConfigsResource] = field("0+")
    validate_only: bool = field("0+")


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")
    resource_type: Int8 = field("0+")
    resource_name: str = field("0+")


class IncrementalAlterConfigsResponse(Response, key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32 = field("0+")
    responses: list[AlterConfigsResourceResponse] = field("0+")
