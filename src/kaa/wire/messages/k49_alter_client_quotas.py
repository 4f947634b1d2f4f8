"""AlterClientQuotas, key 49. Changes client quotas."""

from kaa.wire.schema import Float64, Int16, Int32, Request, Response, Struct, field


class EntityData(Struct):
    entity_type: str = field("0+")
    entity_name: str | None = field("0+")


class OpData(Struct):
    key: str = field("0+")
    value: Float64 = field("0+")
    remove: bool = field("0+")


class RequestEntryData(Struct):
    entity: list[EntityData] = field("0+")
    ops: list[OpData] = field("0+")


class AlterClientQuotasRequest(
    Request["AlterClientQuotasResponse"],
    key=49,
    versions="0-1",
    flexible="1+",
    listeners=("broker", "controller"),
):
    entries: list[RequestEntryData] = field("0+")
    validate_only: bool = field("0+")


class ResponseEntryData(Struct):
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")
    entity: list[EntityData] = field("0+")


class AlterClientQuotasResponse(Response, key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32 = field("0+")
    entries: list[ResponseEntryData] = field("0+")
