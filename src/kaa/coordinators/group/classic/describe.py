"""Classic groups as administrators see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.classic.group import ClassicGroup, ClassicGroupState
from kaa.model.pieces import mapped
from kaa.wire.errors import Errors
from kaa.wire.messages.k15_describe_groups import DescribedGroup, DescribedGroupMember

if TYPE_CHECKING:
    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.timeline import TimelineDict
    from kaa.model.pieces import Pieces

# The version from which a client learns that a group does not exist.
_NOT_FOUND_VERSION: Final = 6


def describe_classic_group(
    groups: TimelineDict[str, Group], group_id: str, api_version: int
) -> Pieces[DescribedGroup]:
    """Committed state; a group of another kind is refused."""
    group = groups.committed(group_id)
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
