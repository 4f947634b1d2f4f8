"""SaslAuthenticate, key 36: as with `k17_sasl_handshake`, there is nothing to authenticate here.

Version 1 adds the lifetime of a session (KIP-368), which is unlimited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.wire.errors import Errors
from kaa.wire.messages.k36_sasl_authenticate import SaslAuthenticateResponse

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest


def handle(
    _services: NodeServices,
    _request: SaslAuthenticateRequest,
    _context: RequestContext,
) -> Answer[SaslAuthenticateResponse]:
    return SaslAuthenticateResponse(
        error_code=Errors.ILLEGAL_SASL_STATE,
        error_message="the connection is already authenticated",
    )
