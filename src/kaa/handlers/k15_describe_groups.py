"""DescribeGroups, key 15: state, protocol and members of classic groups.

A group that does not exist is described as dead; from version 6 on with an error (KIP-1043).
Version 3 added what the client may do with the group (KIP-430), 4 group instance ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.classic.group import ClassicGroup, ClassicGroupState
from kaa.handlers.described_groups import describe_groups
from kaa.model.pieces import mapped
from kaa.wire.errors import Errors
from kaa.wire.messages.k15_describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from kaa.coordinators.group.kinds import Group
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.messages.k15_describe_groups import DescribeGroupsRequest

# The version from which a client learns that a group does not exist.
_NOT_FOUND_VERSION: Final = 6


def handle(
    services: Services, request: DescribeGroupsRequest, context: RequestContext
) -> Answer[DescribeGroupsResponse]:
    return describe_groups(
        services.groups,
        request.groups,
        lambda group_id, group: describe(group_id, group, context.api_version),
        DescribedGroup,
        DescribeGroupsResponse,
        with_operations=request.include_authorized_operations,
        allows_empty_id=True,
    )


def describe(group_id: str, group: Group | None, api_version: int) -> Pieces[DescribedGroup]:
    """A group of another kind is as good as none."""
    if not isinstance(group, ClassicGroup):
        described = DescribedGroup(
            group_id=group_id, group_state=ClassicGroupState.DEAD.value, members=[]
        )
        if api_version >= _NOT_FOUND_VERSION:
            reason = "not found" if group is None else f"is a {group.kind} group"
            described.error_code = Errors.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} {reason}."
        return described
    is_stable = group.is_in(ClassicGroupState.STABLE)
    protocol = group.protocol_name
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(protocol or "") if is_stable else "",
    )
    described.members = yield from mapped(
        lambda member: DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(protocol) if is_stable else b"",
            member_assignment=member.assignment,
        ),
        tuple(group.members.values()),
    )
    return described
