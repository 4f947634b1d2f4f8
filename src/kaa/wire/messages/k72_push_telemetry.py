"""PushTelemetry, key 72. Receives a client's metrics (KIP-714)."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int8, Int16, Int32, Request, Response, field


class PushTelemetryRequest(Request["PushTelemetryResponse"], key=72, versions="0", flexible="0+"):
    client_instance_id: Uuid = field("0+")
    subscription_id: Int32 = field("0+")
    terminating: bool = field("0+")
    compression_type: Int8 = field("0+")
    metrics: bytes = field("0+")


class PushTelemetryResponse(Response, key=72, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
