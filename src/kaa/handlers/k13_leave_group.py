"""LeaveGroup, key 13: members leave a classic group, or an administrator removes them.

Up to version 2 one member leaves, and the error of the answer is its own. Version 3 removes many
at once, static ones by their group instance ids (KIP-345); version 5 gives reasons (KIP-800).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.wire.errors import Errors
from kaa.wire.messages.k13_leave_group import LeaveGroupResponse, MemberIdentity

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k13_leave_group import LeaveGroupRequest

_BATCH_VERSION = 3


async def handle(
    services: Services, request: LeaveGroupRequest, context: RequestContext
) -> LeaveGroupResponse:
    if context.api_version >= _BATCH_VERSION:
        return await services.groups.leave(request)
    request.members = [MemberIdentity(member_id=request.member_id)]
    response = await services.groups.leave(request)
    errors = [response.error_code, *(member.error_code for member in response.members)]
    error = next((code for code in errors if code != Errors.NONE), Errors.NONE)
    return LeaveGroupResponse(error_code=error, members=[])
