"""What the four calls that describe groups have in common (15, 69, 77, 89).

Groups are described one by one, in turns of the loop if there are many, each with what the client
may do with it (KIP-430) if it asks for that. A large group is described in pieces.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kaa.handlers import authorized_operations
from kaa.handlers.in_slices import asked_in_slices
from kaa.limits import GROUPS_DESCRIBED_PER_SLICE_MAX, RECORDS_PER_PIECE
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence

    from kaa.coordinators.group.coordinator import GroupCoordinator
    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.machine import CoordinatorError
    from kaa.handlers.context import Answer
    from kaa.model.pieces import Pieces

R = TypeVar("R")
_Group = TypeVar("_Group")
_Member = TypeVar("_Member")
_Described = TypeVar("_Described")


def unsupported_groups(
    group_ids: Sequence[str],
    described_group: Callable[..., Any],
    response: Callable[..., R],
    **fields: Any,
) -> R:
    """The response of a cluster that has no such groups, with these fields for each of them."""
    error = Errors.UNSUPPORTED_VERSION
    groups = [
        described_group(group_id=one, error_code=error, members=[], **fields) for one in group_ids
    ]
    return response(groups=groups)


def describe_groups(
    groups: GroupCoordinator,
    group_ids: Sequence[str],
    describe: Callable[[str, Group | None], Pieces[Any]],
    described_group: Callable[..., Any],
    response: Callable[..., R],
    *,
    with_operations: bool,
    allows_empty_id: bool,
) -> Answer[R]:
    """The response about these groups, in their order, described or refused."""

    def ask(group_id: str) -> asyncio.Future[Any]:
        def refused(refusal: CoordinatorError) -> Any:
            return described_group(group_id=group_id, error_code=refusal.error, members=[])

        return groups.describe(
            group_id, partial(describe, group_id), refused, allows_empty_id=allows_empty_id
        )

    def respond(described: list[Any]) -> R:
        if with_operations:
            for group in described:
                if group.error_code == Errors.NONE:
                    group.authorized_operations = authorized_operations.GROUP
        return response(groups=described)

    return asked_in_slices(
        group_ids,
        ask,
        respond,
        slice_max=GROUPS_DESCRIBED_PER_SLICE_MAX,
    )


def of_kind(
    kind: type[_Group],
    describe: Callable[[_Group], Pieces[_Described]],
    described_group: Callable[..., _Described],
) -> Callable[[str, Group | None], Pieces[_Described]]:
    """Describes groups of this kind; those of another are not found."""

    def described(group_id: str, group: Group | None) -> Pieces[_Described]:
        if isinstance(group, kind):
            return (yield from describe(group))
        reason = "is not there" if group is None else f"is a {group.kind} group"
        return described_group(
            group_id=group_id,
            error_code=Errors.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {reason}.",
            members=[],
        )

    return described


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
