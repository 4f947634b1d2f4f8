"""ConsumerGroupHeartbeat, key 68: a member joins a consumer group, stays, or leaves (KIP-848).

The member epoch says what is meant: 0 joins, -1 leaves, -2 leaves for a moment as a static member,
anything else stays. The answer has the assignment if the member asked for it or if it has changed.

Version 1 added subscriptions by regular expression and the rule that clients make member ids
themselves (KIP-1082); in version 0 the coordinator makes them. Clusters whose feature group.version
is 0 have no consumer groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.coordinator import GROUP_FEATURE
from kaa.coordinators.group.outcome import Client
from kaa.net.pending import Hold, Pending
from kaa.wire.errors import Errors
from kaa.wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from kaa.coordinators.machine import CoordinatorError
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def handle(
    services: Services, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> Answer[ConsumerGroupHeartbeatResponse]:
    if services.image.features.get(GROUP_FEATURE, 0) < 1:
        error = Errors.UNSUPPORTED_VERSION
        return ConsumerGroupHeartbeatResponse(error_code=error, error_message=error.message)
    client = Client(context.client_id, context.client_host, context.api_version)
    return Pending(services.groups.consumer_heartbeat(request, client, _refused), Hold.NOTHING)


def _refused(error: CoordinatorError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.error, error_message=error.message)
