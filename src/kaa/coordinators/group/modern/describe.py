"""Groups of one kind, described by their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.timeline import TimelineDict

_Group = TypeVar("_Group")
_Described = TypeVar("_Described")


def describe_one(
    groups: TimelineDict[str, Group],
    group_id: str,
    kind: type[_Group],
    describe: Callable[[_Group], _Described],
    refused: Callable[..., _Described],
) -> _Described:
    """Committed state; a group of another kind is refused."""
    group = groups.committed(group_id)
    if isinstance(group, kind):
        return describe(group)
    reason = "is not there" if group is None else f"is a {group.kind} group"
    return refused(
        group_id=group_id,
        error_code=Errors.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} {reason}.",
        members=[],
    )
