"""ExpireDelegationToken, key 40. Ends a delegation token."""

from kaa.wire.schema import Int16, Int32, Int64, Request, Response, field


class ExpireDelegationTokenRequest(
    Request["ExpireDelegationTokenResponse"],
    key=40,
    versions="1-2",
    flexible="2+",
    listeners=("broker", "controller"),
):
    hmac: bytes = field("0+")
    expiry_time_period_ms: Int64 = field("0+")


class ExpireDelegationTokenResponse(Response, key=40, versions="1-2", flexible="2+"):
    error_code: Int16 = field("0+")
    expiry_timestamp_ms: Int64 = field("0+")
    throttle_time_ms: Int32 = field("0+")
