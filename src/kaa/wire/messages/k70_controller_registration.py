"""ControllerRegistration, key 70. Registers a controller with the active one."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Request, Response, Struct, Uint16, field


class Listener(Struct):
    name: str = field("0+")
    host: str = field("0+")
    port: Uint16 = field("0+")
    security_protocol: Int16 = field("0+")


class Feature(Struct):
    name: str = field("0+")
    min_supported_version: Int16 = field("0+")
    max_supported_version: Int16 = field("0+")


class ControllerRegistrationRequest(
    Request["ControllerRegistrationResponse"],
    key=70,
    versions="0",
    flexible="0+",
    listeners=("controller",),
):
    controller_id: Int32 = field("0+")
    incarnation_id: Uuid = field("0+")
    zk_migration_ready: bool = field("0+")
    listeners: list[Listener] = field("0+")
    features: list[Feature] = field("0+")


class ControllerRegistrationResponse(Response, key=70, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")
