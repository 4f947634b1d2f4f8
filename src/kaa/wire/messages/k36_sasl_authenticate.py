"""SaslAuthenticate, key 36. Carries the messages of a SASL mechanism."""

from kaa.wire.schema import Int16, Int64, Request, Response, field


class SaslAuthenticateRequest(
    Request["SaslAuthenticateResponse"],
    key=36,
    versions="0-2",
    flexible="2+",
    listeners=("broker", "controller"),
):
    auth_bytes: bytes = field("0+")


class SaslAuthenticateResponse(Response, key=36, versions="0-2", flexible="2+"):
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")
    auth_bytes: bytes = field("0+")
    session_lifetime_ms: Int64 = field("1+", ignorable=True)
