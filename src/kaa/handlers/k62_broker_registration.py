"""BrokerRegistration, key 62: a broker starts and asks for its epoch (KIP-631).

| version | what is new |
|---|---|
| 2 | log directories (KIP-858) |
| 3 | the epoch before a clean stop (KIP-966) |
| 4 | features whose lowest level is 0 (KIP-1022) |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k62_broker_registration import (
        BrokerRegistrationRequest,
        BrokerRegistrationResponse,
    )


def handle(
    services: NodeServices, request: BrokerRegistrationRequest, context: RequestContext
) -> Answer[BrokerRegistrationResponse]:
    return Pending(forward(services, request, context))
