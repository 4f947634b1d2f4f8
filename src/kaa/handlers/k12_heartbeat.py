"""Heartbeat, key 12: a member of a classic group is alive, and learns whether to join again.

Version 3 added static members (KIP-345).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.coordinator import heartbeat_response
from kaa.handlers.context import Parked

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k12_heartbeat import HeartbeatRequest


def handle(services: Services, request: HeartbeatRequest, _: RequestContext) -> Parked:
    return Parked(services.groups.heartbeat(request), heartbeat_response)
