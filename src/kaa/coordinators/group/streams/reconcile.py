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
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.coordinators.group.streams.member import (
        EpochMap,
        StreamsMember,
        TaskMap,
        Tasks,
    )


class Owners(Protocol):
    """Which processes have a task."""

    def active_process(self, name: str, partition: int) -> str | None: ...

    def has_passive(self, name: str, partition: int, process_id: str) -> bool:
        """Whether the process has it as a standby, or warms it up."""
        ...


class _Difference(NamedTuple):
    """Tasks that stay, go and come, and whether some cannot come yet."""

    kept: EpochMap
    revoked: EpochMap
    new: EpochMap
    is_unreleased: bool


def reconciled(
    member: StreamsMember, owners: Owners, epoch: int, target: Tasks, owned: Tasks | None
) -> StreamsMember:
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
    return _next(member, owners, at_epoch, epoch, target, owned)


def _next(
    member: StreamsMember,
    owners: Owners,
    at_epoch: int,
    epoch: int,
    target: Tasks,
    owned: Tasks | None,
) -> StreamsMember:
    process_id = member.process_id

    def is_active_taken(name: str, number: int) -> bool:
        owner = owners.active_process(name, number)
        return owner is not None or owners.has_passive(name, number, process_id)

    def is_taken(name: str, number: int) -> bool:
        is_active = owners.active_process(name, number) == process_id
        return is_active or owners.has_passive(name, number, process_id)

    has = member.assigned
    active = _difference(has.active, target.active, epoch, is_active_taken)
    standby = _difference(_with_epochs(has.standby), target.standby, epoch, is_taken)
    warmup = _difference(_with_epochs(has.warmup), target.warmup, epoch, is_taken)
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
        assigned=OwnedTasks(
            _merged(active), _without_epochs(_merged(standby)), _without_epochs(_merged(warmup))
        ),
        pending_revocation=OwnedTasks(),
    )


def _difference(
    current: EpochMap, target: TaskMap, epoch: int, is_taken: Callable[[str, int], bool]
) -> _Difference:
    found = _Difference({}, {}, {}, is_unreleased=False)
    is_unreleased = False
    for name in dict.fromkeys((*target, *current)):
        wanted, has = target.get(name, frozenset()), current.get(name, {})
        kept = {number: since for number, since in has.items() if number in wanted}
        revoked = {number: since for number, since in has.items() if number not in wanted}
        new = {}
        for number in wanted - kept.keys():
            if is_taken(name, number):
                is_unreleased = True
            else:
                new[number] = epoch
        for tasks, place in ((kept, found.kept), (revoked, found.revoked), (new, found.new)):
            if tasks:
                place[name] = tasks
    return found._replace(is_unreleased=is_unreleased)


def _merged(difference: _Difference) -> EpochMap:
    found = {name: dict(numbers) for name, numbers in difference.kept.items()}
    for name, numbers in difference.new.items():
        found.setdefault(name, {}).update(numbers)
    return found


def _with_epochs(tasks: TaskMap) -> EpochMap:
    return {name: dict.fromkeys(numbers, 0) for name, numbers in tasks.items()}


def _without_epochs(tasks: EpochMap) -> TaskMap:
    return {name: frozenset(numbers) for name, numbers in tasks.items()}
