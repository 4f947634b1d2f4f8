"""DescribeClientQuotas, key 48. Describes client quotas that match a filter."""

from kaa.wire.schema import Float64, Int8, Int16, Int32, Request, Response, Struct, field


class ComponentData(Struct):
    entity_type: str = field("0+")
    match_type: Int8 = field("0+")
    match: str | None = field("0+")


class DescribeClientQuotasRequest(
    Request["DescribeClientQuotasResponse"], key=48, versions="0-1", flexible="1+"
):
    components: list[ComponentData] = field("0+")
    strict: bool = field("0+")


class EntityData(Struct):
    entity_type: str = field("0+")
    entity_name: str | None = field("0+")


class ValueData(Struct):
    key: str = field("0+")
    value: Float64 = field("0+")


class EntryData(Struct):
    entity: list[EntityData] = field("0+")
    values: list[ValueData] = field("0+")


class DescribeClientQuotasResponse(Response, key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")
    entries: list[EntryData] | None = field("0+")
