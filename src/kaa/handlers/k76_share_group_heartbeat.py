"""ShareGroupHeartbeat, key 76: a member joins a share group, stays, or leaves (KIP-932).

The member epoch says what is meant: 0 joins, -1 leaves, anything else stays. The answer has the
assignment if the member asked for it or if it has changed. Clusters whose feature share.version is
0 have no share groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.outcome import Client
from kaa.coordinators.share.coordinator import SHARE_FEATURE
from kaa.net.pending import Hold, Pending
from kaa.wire.errors import Errors
from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from kaa.coordinators.machine import CoordinatorError
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest


def handle(
    services: Services, request: ShareGroupHeartbeatRequest, context: RequestContext
) -> Answer[ShareGroupHeartbeatResponse]:
    if services.image.features.get(SHARE_FEATURE, 0) < 1:
        error = Errors.UNSUPPORTED_VERSION
        return ShareGroupHeartbeatResponse(error_code=error, error_message=error.message)
    if not request.member_id.strip():
        # Kafka says nothing more about it either.
        return ShareGroupHeartbeatResponse(error_code=Errors.INVALID_REQUEST)
    client = Client(context.client_id, context.client_host, context.api_version)
    return Pending(services.groups.share_heartbeat(request, client, _refused), Hold.NOTHING)


def _refused(error: CoordinatorError) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error.error, error_message=error.message)
