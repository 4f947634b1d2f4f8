"""SyncGroup, key 14: the leader hands in the assignment, and every member waits for its part.

Version 3 added static members (KIP-345). From version 5 on a request must say which protocol it
believes in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.net.pending import Pending
from kaa.wire.errors import Errors
from kaa.wire.messages.k14_sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from kaa.coordinators.machine import CoordinatorError
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k14_sync_group import SyncGroupRequest

_PROTOCOL_VERSION = 5


def handle(
    services: Services, request: SyncGroupRequest, context: RequestContext
) -> Answer[SyncGroupResponse]:
    return Pending(_sync(services, request, context))


async def _sync(
    services: Services, request: SyncGroupRequest, context: RequestContext
) -> SyncGroupResponse:
    has_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= _PROTOCOL_VERSION and not has_protocol:
        return SyncGroupResponse(error_code=Errors.INCONSISTENT_GROUP_PROTOCOL)
    return await services.groups.sync(request, _refused)


def _refused(error: CoordinatorError) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error.error)
