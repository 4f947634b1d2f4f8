"""Heartbeat, key 12: a member of a classic group is alive, and learns whether to join again.

Version 3 added static members (KIP-345).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.net.pending import Hold, Pending
from kaa.wire.errors import Errors
from kaa.wire.messages.k12_heartbeat import HeartbeatResponse

if TYPE_CHECKING:
    from kaa.coordinators.machine import CoordinatorError
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k12_heartbeat import HeartbeatRequest


def handle(
    services: Services, request: HeartbeatRequest, _: RequestContext
) -> Answer[HeartbeatResponse]:
    return Pending(services.groups.heartbeat(request, _refused, _respond), Hold.NOTHING)


def _respond(error: Errors) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error)


def _refused(error: CoordinatorError) -> HeartbeatResponse:
    # Nobody loses its place because the group is being loaded.
    is_loading = error.error is Errors.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=Errors.NONE if is_loading else error.error)
