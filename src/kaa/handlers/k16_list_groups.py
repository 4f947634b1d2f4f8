"""ListGroups, key 16: the groups that this broker coordinates.

Version 4 added a filter by state (KIP-518), version 5 one by type (KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.net.pending import Pending
from kaa.wire.messages.k16_list_groups import ListedGroup, ListGroupsResponse

if TYPE_CHECKING:
    from kaa.coordinators.group.kinds import Group
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k16_list_groups import ListGroupsRequest


def handle(
    services: Services, request: ListGroupsRequest, _: RequestContext
) -> Answer[ListGroupsResponse]:
    return Pending(
        services.groups.list_groups(
            request,
            listed_group,
            lambda refusal: ListGroupsResponse(error_code=refusal.error, groups=[]),
            lambda groups: ListGroupsResponse(groups=groups),
        )
    )


def listed_group(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.shown_state,
        group_type=group.kind,
    )
