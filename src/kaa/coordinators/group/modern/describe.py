"""Groups of one kind, described by their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kaa.limits import RECORDS_PER_PIECE
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.timeline import TimelineDict
    from kaa.model.pieces import Pieces

_Group = TypeVar("_Group")
_Member = TypeVar("_Member")
_Described = TypeVar("_Described")


def describe_one(
    groups: TimelineDict[str, Group],
    group_id: str,
    kind: type[_Group],
    describe: Callable[[_Group], Pieces[_Described]],
    refused: Callable[..., _Described],
) -> Pieces[_Described]:
    """Committed state; a group of another kind is refused."""
    group = groups.committed(group_id)
    if isinstance(group, kind):
        return (yield from describe(group))
    reason = "is not there" if group is None else f"is a {group.kind} group"
    return refused(
        group_id=group_id,
        error_code=Errors.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} {reason}.",
        members=[],
    )


def described_members(
    members: Iterable[_Member],
    describe: Callable[[_Member], Pieces[_Described]],
    size: Callable[[_Member], int],
) -> Pieces[list[_Described]]:
    """The members of a group; `size` says of each how many entries it has, topics for instance."""
    described: list[_Described] = []
    count = 0
    for member in members:
        count += 1 + size(member)
        described.append((yield from describe(member)))
        if count >= RECORDS_PER_PIECE:
            count = 0
            yield
    return described
