"""How a member gets from what it has to what it is to have.

| the member | partitions |
|---|---|
| has, and keeps | assigned so far and in the target |
| has, and gives up | assigned so far and not in the target |
| gets now | in the target, and nobody has it |
| gets later | in the target, and somebody else still has it |

As long as there is something to give up that the member reports to own, or may own because it
reports nothing, it stays at its epoch (unrevoked). Then it moves to the epoch of the target, and
gets what is free; if something is not, it asks again with every heartbeat (unreleased).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kaa.coordinators.group.consumer.member import MemberState
from kaa.coordinators.machine import CoordinatorError
from kaa.limits import GROUP_TOPICS_PER_PIECE
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Collection, Container

    from kaa.coordinators.group.assignors.table import Assignment
    from kaa.coordinators.group.consumer.member import ConsumerMember, Owned
    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid

# What a member says it has: numbers of partitions by topic id; None if it says nothing.
Reported = dict["Uuid", list[int]] | None


class OwnedByTopic(Protocol):
    """Partitions by topic id; None where nobody has any."""

    def get(self, topic_id: Uuid, /) -> Container[int] | None: ...


class MemberTarget(NamedTuple):
    """What a member is to have from an epoch on."""

    epoch: int
    assignment: Assignment


class Situation(NamedTuple):
    """What a step of a member depends on besides the member."""

    target: MemberTarget
    # By topic, the partitions that some member has.
    owners: OwnedByTopic
    # Topics that the member subscribes to now; what it has of others is taken away.
    topic_ids: Collection[Uuid]
    has_subscription_changed: bool
    reported: Reported


def reconcile(member: ConsumerMember, situation: Situation) -> Pieces[ConsumerMember]:
    """The member after the next step; the same if there is nothing to do."""
    if member.state is MemberState.STABLE and member.member_epoch == situation.target.epoch:
        return _shrink(member, situation) if situation.has_subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _owns(member.pending_revocation, situation.reported):
            return _shrink(member, situation) if situation.has_subscription_changed else member
    elif member.state is MemberState.UNKNOWN:
        if situation.reported is None or situation.reported:
            raise CoordinatorError(
                Errors.FENCED_MEMBER_EPOCH,
                "A newer version left the member in a state that is not known here: it has to let "
                "go of its partitions and join again.",
            )
        return (yield from _advance(member, situation, situation.target.epoch))
    return (yield from _advance(member, situation, member.member_epoch))


def _owns(partitions: Owned, reported: Reported) -> bool:
    """Whether the member may still have one of the partitions."""
    if reported is None:
        return True
    return any(
        number in partitions.get(topic_id, ())
        for topic_id, numbers in reported.items()
        for number in numbers
    )


def _shrink(member: ConsumerMember, situation: Situation) -> ConsumerMember:
    """Takes topics away that the member does not subscribe to any more."""
    assigned: Owned = {}
    pending = dict(member.pending_revocation)
    for topic_id, numbers in member.assigned.items():
        if topic_id in situation.topic_ids:
            assigned[topic_id] = numbers
        else:
            pending[topic_id] = {**pending.get(topic_id, {}), **numbers}
    if len(assigned) == len(member.assigned):
        return member
    if _owns(pending, situation.reported):
        return member.at_epoch(
            member.member_epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=assigned,
            pending_revocation=pending,
        )
    # The member gave them up by itself.
    return member.at_epoch(member.member_epoch, assigned=assigned)


def _advance(member: ConsumerMember, situation: Situation, epoch: int) -> Pieces[ConsumerMember]:
    target = situation.target
    kept: Owned = {}
    given_up: Owned = {}
    # What it keeps and what is free.
    gets: Owned = {}
    is_waiting = False
    topic_ids = target.assignment.keys() | member.assigned.keys()
    for count, topic_id in enumerate(topic_ids, 1):
        if count % GROUP_TOPICS_PER_PIECE == 0:
            yield
        is_subscribed = topic_id in situation.topic_ids
        wanted = target.assignment.get(topic_id, frozenset()) if is_subscribed else frozenset()
        has = member.assigned.get(topic_id, {})
        stays = {number: at for number, at in has.items() if number in wanted}
        _put(kept, topic_id, stays)
        _put(given_up, topic_id, {number: at for number, at in has.items() if number not in wanted})
        # What the member itself was to give up is free for it.
        own = member.pending_revocation.get(topic_id, {})
        missing = wanted - has.keys()
        owners = situation.owners.get(topic_id) or ()
        free = [one for one in missing if one not in owners or one in own]
        is_waiting = is_waiting or len(free) < len(missing)
        _put(gets, topic_id, {**stays, **dict.fromkeys(free, target.epoch)} if free else stays)
    if given_up and _owns(given_up, situation.reported):
        return member.at_epoch(
            epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=given_up,
        )
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return member.at_epoch(target.epoch, state=state, assigned=gets, pending_revocation={})


def _put(owned: Owned, topic_id: Uuid, numbers: dict[int, int]) -> None:
    if numbers:
        owned[topic_id] = numbers
