"""ListGroups, key 16: the groups that this broker coordinates.

Version 4 added a filter by state (KIP-518), version 5 one by type (KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.net.pending import Pending
from kaa.wire.messages.k16_list_groups import ListGroupsResponse

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k16_list_groups import ListGroupsRequest


def handle(
    services: Services, request: ListGroupsRequest, _: RequestContext
) -> Answer[ListGroupsResponse]:
    return Pending(
        services.groups.list_groups(
            request,
            lambda refusal: ListGroupsResponse(error_code=refusal.error, groups=[]),
            lambda groups: ListGroupsResponse(groups=groups),
        )
    )
