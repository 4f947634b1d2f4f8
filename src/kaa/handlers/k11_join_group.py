"""JoinGroup, key 11: a client becomes a member of a classic group, or takes part in a rebalance.

The answer waits for the other members. Version 1 added the rebalance timeout, 4 the id that a new
member has to come again with (KIP-394), 5 static members (KIP-345), 7 the protocol type in the
answer, 8 a reason for the log (KIP-800), 9 leaders that keep the assignment (KIP-814).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.outcome import Client
from kaa.net.pending import Pending
from kaa.wire.errors import Errors
from kaa.wire.messages.k11_join_group import JoinGroupResponse

if TYPE_CHECKING:
    from kaa.coordinators.machine import CoordinatorError
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k11_join_group import JoinGroupRequest

_NULLABLE_PROTOCOL_VERSION = 7
_INVALID = frozenset({Errors.INVALID_GROUP_ID, Errors.INVALID_SESSION_TIMEOUT})


def handle(
    services: Services, request: JoinGroupRequest, context: RequestContext
) -> Answer[JoinGroupResponse]:
    return Pending(_join(services, request, context))


async def _join(
    services: Services, request: JoinGroupRequest, context: RequestContext
) -> JoinGroupResponse:
    client = Client(context.client_id, context.client_host, context.api_version)

    def refused(error: CoordinatorError) -> JoinGroupResponse:
        # Only what is wrong with the request itself is said with the id of the member.
        member_id = request.member_id if error.error in _INVALID else ""
        return JoinGroupResponse(error_code=error.error, member_id=member_id)

    response = await services.groups.join(request, client, refused)
    if not response.protocol_name:
        is_nullable = context.api_version >= _NULLABLE_PROTOCOL_VERSION
        response.protocol_name = None if is_nullable else ""
    return response
