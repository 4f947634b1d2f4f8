"""RenewDelegationToken, key 39. Prolongs a delegation token."""

from kaa.wire.schema import Int16, Int32, Int64, Request, Response, field


class RenewDelegationTokenRequest(
    Request["RenewDelegationTokenResponse"],
    key=39,
    versions="1-2",
    flexible="2+",
    listeners=("broker", "controller"),
):
    hmac: bytes = field("0+")
    renew_period_ms: Int64 = field("0+")


class RenewDelegationTokenResponse(Response, key=39, versions="1-2", flexible="2+"):
    error_code: Int16 = field("0+")
    expiry_timestamp_ms: Int64 = field("0+")
    throttle_time_ms: Int32 = field("0+")
