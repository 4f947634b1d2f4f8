"""SaslHandshake, key 17. Opens a SASL exchange by naming its mechanism."""

from kaa.wire.schema import Int16, Request, Response, field


class SaslHandshakeRequest(
    Request["SaslHandshakeResponse"], key=17, versions="0-1", listeners=("broker", "controller")
):
    mechanism: str = field("0+")


class SaslHandshakeResponse(Response, key=17, versions="0-1"):
    error_code: Int16 = field("0+")
    mechanisms: list[str] = field("0+")
