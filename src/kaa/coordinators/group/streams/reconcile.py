"""How a member comes from the tasks it has to those it is to have.

It gives up first: tasks that are not in its target are *pending revocation* until the member
reports that it does not have them, and its epoch stays. Then it takes the target's epoch and every
task that nobody else has: an active task must have no owner, and no process may have a task twice.
What is left is *unreleased*, and taken when its owner has given it up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kaa.coordinators.group.streams.member import (
    MemberState,
    OwnedTasks,
)
from kaa.coordinators.machine import CoordinatorError
from kaa.limits import GROUP_TOPICS_PER_PIECE
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaa.coordinators.group.streams.member import (
        EpochMap,
        StreamsMember,
        TaskMap,
        Tasks,
    )
    from kaa.model.pieces import Pieces


class Owners(Protocol):
    """Which processes have the tasks of a subtopology, by partition."""

    def active_processes(self, name: str) -> Mapping[int, str]: ...

    def passive_processes(self, name: str) -> Mapping[int, tuple[str, ...]]:
        """Those that have one as a standby, or warm it up."""
        ...


class _Difference(NamedTuple):
    """Tasks that stay, that go, and that it has when others have come; whether some cannot yet."""

    kept: EpochMap
    revoked: EpochMap
    has: EpochMap
    is_unreleased: bool


def reconciled(
    member: StreamsMember, owners: Owners, epoch: int, target: Tasks, owned: Tasks | None
) -> Pieces[StreamsMember]:
    """The member after one step; `owned` is what it reports, if it does."""
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch == epoch:
                return member
            at_epoch = member.member_epoch
        case MemberState.UNREVOKED_TASKS:
            if owned is None or owned.has_any(member.pending_revocation):
                return member
            at_epoch = member.member_epoch + 1
        case MemberState.UNRELEASED_TASKS:
            at_epoch = member.member_epoch
        case _:
            if owned is None or any(owned):
                raise CoordinatorError(
                    Errors.FENCED_MEMBER_EPOCH,
                    "The member is in a state that this version does not know: it has to give up "
                    "its tasks and join again.",
                )
            at_epoch = epoch
    return (yield from _next(member, owners, at_epoch, epoch, target, owned))


def _next(
    member: StreamsMember,
    owners: Owners,
    at_epoch: int,
    epoch: int,
    target: Tasks,
    owned: Tasks | None,
) -> Pieces[StreamsMember]:
    process_id = member.process_id

    def kept_passive(name: str) -> set[int]:
        passive = owners.passive_processes(name).items()
        return {number for number, processes in passive if process_id in processes}

    def active_taken(name: str) -> set[int]:
        return kept_passive(name) | owners.active_processes(name).keys()

    def taken(name: str) -> set[int]:
        active = owners.active_processes(name).items()
        return kept_passive(name) | {number for number, owner in active if owner == process_id}

    has = member.assigned
    active = yield from _difference(has.active, target.active, epoch, active_taken)
    standby = yield from _difference(_with_epochs(has.standby), target.standby, epoch, taken)
    warmup = yield from _difference(_with_epochs(has.warmup), target.warmup, epoch, taken)
    kept = OwnedTasks(active.kept, _without_epochs(standby.kept), _without_epochs(warmup.kept))
    revoked = OwnedTasks(
        active.revoked, _without_epochs(standby.revoked), _without_epochs(warmup.revoked)
    )
    is_unreleased = active.is_unreleased or standby.is_unreleased or warmup.is_unreleased
    if not revoked.is_empty and (owned is None or owned.has_any(revoked)):
        return member._replace(
            state=MemberState.UNREVOKED_TASKS,
            member_epoch=at_epoch,
            previous_member_epoch=member.member_epoch,
            assigned=kept,
            pending_revocation=revoked,
        )
    return member._replace(
        state=MemberState.UNRELEASED_TASKS if is_unreleased else MemberState.STABLE,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        assigned=OwnedTasks(active.has, _without_epochs(standby.has), _without_epochs(warmup.has)),
        pending_revocation=OwnedTasks(),
    )


def _difference(
    current: EpochMap, target: TaskMap, epoch: int, taken: Callable[[str], set[int]]
) -> Pieces[_Difference]:
    found = _Difference({}, {}, {}, is_unreleased=False)
    is_unreleased = False
    for count, name in enumerate(dict.fromkeys((*target, *current)), 1):
        if count % GROUP_TOPICS_PER_PIECE == 0:
            yield
        wanted, has = target.get(name, frozenset()), current.get(name, {})
        kept = {number: since for number, since in has.items() if number in wanted}
        revoked = {number: since for number, since in has.items() if number not in wanted}
        missing = wanted - kept.keys()
        free = missing - taken(name)
        is_unreleased |= len(free) < len(missing)
        gets = kept | dict.fromkeys(free, epoch) if free else kept
        for tasks, place in ((kept, found.kept), (revoked, found.revoked), (gets, found.has)):
            if tasks:
                place[name] = tasks
    return found._replace(is_unreleased=is_unreleased)


def _with_epochs(tasks: TaskMap) -> EpochMap:
    return {name: dict.fromkeys(numbers, 0) for name, numbers in tasks.items()}


def _without_epochs(tasks: EpochMap) -> TaskMap:
    return {name: frozenset(numbers) for name, numbers in tasks.items()}
