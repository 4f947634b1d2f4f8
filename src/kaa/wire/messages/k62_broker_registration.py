"""BrokerRegistration, key 62. Registers a broker with the controller at its start."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Int64, Request, Response, Struct, Uint16, field


class Listener(Struct):
    name: str = field("0+")
    host: str = field("0+")
    port: Uint16 = field("0+")
    security_protocol: Int16 = field("0+")


class Feature(Struct):
    name: str = field("0+")
    min_supported_version: Int16 = field("0+")
    max_supported_version: Int16 = field("0+")


class BrokerRegistrationRequest(
    Request["BrokerRegistrationResponse"],
    key=62,
    versions="0-4",
    flexible="0+",
    listeners=("controller",),
):
    broker_id: Int32 = field("0+")
    cluster_id: str = field("0+")
    incarnation_id: Uuid = field("0+")
    listeners: list[Listener] = field("0+")
    features: list[Feature] = field("0+")
    rack: str | None = field("0+")
    is_migrating_zk_broker: bool = field("1+")
    log_dirs: list[Uuid] = field("2+", ignorable=True)
    previous_broker_epoch: Int64 = field("3+", default=-1, ignorable=True)


class BrokerRegistrationResponse(Response, key=62, versions="0-4", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    broker_epoch: Int64 = field("0+", default=-1)
