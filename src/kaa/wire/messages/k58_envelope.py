"""Envelope, key 58. Carries another request on behalf of a principal, from a broker to the
controller.
"""

from kaa.wire.schema import Int16, Request, Response, field


class EnvelopeRequest(
    Request["EnvelopeResponse"], key=58, versions="0", flexible="0+", listeners=("controller",)
):
    request_data: bytes = field("0+")
    request_principal: bytes | None = field("0+")
    client_host_address: bytes = field("0+")


class EnvelopeResponse(Response, key=58, versions="0", flexible="0+"):
    response_data: bytes | None = field("0+", default=None)
    error_code: Int16 = field("0+")
