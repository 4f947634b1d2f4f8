"""LeaveGroup, key 13: members leave a classic group, or an administrator removes them.

Up to version 2 one member leaves, and the error of the answer is its own. Version 3 removes many
at once, static ones by their group instance ids (KIP-345); version 5 gives reasons (KIP-800).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.model.pieces import mapped
from kaa.model.turns import in_turns
from kaa.net.pending import Pending
from kaa.wire.errors import Errors
from kaa.wire.messages.k13_leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse

if TYPE_CHECKING:
    from kaa.coordinators.machine import CoordinatorError
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.messages.k13_leave_group import LeaveGroupRequest

_BATCH_VERSION: Final = 3


def handle(
    services: Services, request: LeaveGroupRequest, context: RequestContext
) -> Answer[LeaveGroupResponse]:
    return Pending(_leave(services, request, context))


async def _leave(
    services: Services, request: LeaveGroupRequest, context: RequestContext
) -> LeaveGroupResponse:
    if context.api_version < _BATCH_VERSION:
        request.members = [MemberIdentity(member_id=request.member_id)]
    errors: CoordinatorError | list[Errors] = await services.groups.leave(
        request, _as_it_is, _as_it_is
    )
    response = await in_turns(_response(request, errors))
    if context.api_version < _BATCH_VERSION:
        codes = [response.error_code, *(member.error_code for member in response.members)]
        error = next((code for code in codes if code != Errors.NONE), Errors.NONE)
        return LeaveGroupResponse(error_code=error, members=[])
    return response


def _as_it_is(
    errors: CoordinatorError | list[Errors],
) -> CoordinatorError | list[Errors]:
    """The answer is made in turns, which the coordinator cannot take."""
    return errors


def _response(
    request: LeaveGroupRequest, errors: CoordinatorError | list[Errors]
) -> Pieces[LeaveGroupResponse]:
    """Each member with its own error; where all is refused, with none but this one."""
    if not isinstance(errors, list):
        if errors.error is not Errors.UNKNOWN_MEMBER_ID:
            return LeaveGroupResponse(error_code=errors.error, members=[])
        errors = [errors.error] * len(request.members)
    members = yield from mapped(
        lambda one: MemberResponse(
            member_id=one[0].member_id,
            group_instance_id=one[0].group_instance_id,
            error_code=one[1],
        ),
        zip(request.members, errors, strict=True),
    )
    return LeaveGroupResponse(members=members)
