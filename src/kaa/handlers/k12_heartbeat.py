"""Heartbeat, key 12: a member of a classic group is alive, and learns whether to join again.

Version 3 added static members (KIP-345).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse


async def handle(
    services: Services, request: HeartbeatRequest, _: RequestContext
) -> HeartbeatResponse:
    return await services.groups.heartbeat(request)
