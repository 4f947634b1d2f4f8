"""UpdateFeatures, key 57: the levels of features that the cluster uses (KIP-584); the active
controller decides, for all features or for none.

Version 1 brought dry runs and downgrades of three kinds (KIP-778); version 2 says an error once for
the whole request (KIP-1022).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k57_update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


def handle(
    services: NodeServices, request: UpdateFeaturesRequest, context: RequestContext
) -> Answer[UpdateFeaturesResponse]:
    return Pending(forward(services, request, context))
