"""LeaveGroup, key 13: members leave a classic group, or an administrator removes them.

Up to version 2 one member leaves, and the error of the answer is its own. Version 3 removes many
at once, static ones by their group instance ids (KIP-345); version 5 gives reasons (KIP-800).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.wire.errors import Errors
from kaa.wire.messages.k13_leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse

if TYPE_CHECKING:
    from kaa.coordinators.machine import CoordinatorError
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k13_leave_group import LeaveGroupRequest

_BATCH_VERSION: Final = 3


async def handle(
    services: Services, request: LeaveGroupRequest, context: RequestContext
) -> LeaveGroupResponse:
    if context.api_version < _BATCH_VERSION:
        request.members = [MemberIdentity(member_id=request.member_id)]
    response = await services.groups.leave(request, lambda error: _refused(request, error))
    if context.api_version < _BATCH_VERSION:
        errors = [response.error_code, *(member.error_code for member in response.members)]
        error = next((code for code in errors if code != Errors.NONE), Errors.NONE)
        return LeaveGroupResponse(error_code=error, members=[])
    return response


def _refused(request: LeaveGroupRequest, error: CoordinatorError) -> LeaveGroupResponse:
    if error.error is not Errors.UNKNOWN_MEMBER_ID:
        return LeaveGroupResponse(error_code=error.error, members=[])
    members = [
        MemberResponse(
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            error_code=Errors.UNKNOWN_MEMBER_ID,
        )
        for identity in request.members
    ]
    return LeaveGroupResponse(members=members)
