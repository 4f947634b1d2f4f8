"""What consumer, share and streams groups have in common: how one of them is found by its id, when
its records are replayed and when it is described.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.timeline import Timeline, TimelineDict

_Group = TypeVar("_Group")
_Described = TypeVar("_Described")


def replayed_group(
    groups: TimelineDict[str, Group],
    timeline: Timeline,
    group_id: str,
    kind: Callable[[str, Timeline], _Group],
    value: object,
) -> _Group | None:
    """The group that a record is of; None for a tombstone of one that is not there.

    The first record of a group makes it, in the place of one that only commits offsets. A tombstone
    for a group that is not there says nothing: its records were compacted away.
    """
    group: Any = groups.get(group_id)
    if not isinstance(group, kind):  # type: ignore[arg-type]
        if value is None:
            return None
        group = groups[group_id] = kind(group_id, timeline)  # type: ignore[assignment]
    return group  # type: ignore[no-any-return]


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
