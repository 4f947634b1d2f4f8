"""SaslHandshake, key 17: a client wants to authenticate, and this listener asks nobody to.

A listener without SASL counts every connection as authenticated from the start, so that a handshake
comes at the wrong time. Kafka answers it, in every version, instead of closing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.wire.errors import Errors
from kaa.wire.messages.k17_sasl_handshake import SaslHandshakeResponse

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k17_sasl_handshake import SaslHandshakeRequest


def handle(
    _services: NodeServices,
    _request: SaslHandshakeRequest,
    _context: RequestContext,
) -> Answer[SaslHandshakeResponse]:
    return SaslHandshakeResponse(error_code=Errors.ILLEGAL_SASL_STATE)
