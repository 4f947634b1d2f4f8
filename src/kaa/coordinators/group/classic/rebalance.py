"""How a classic group gets from one generation to the next.

Deadlines, each with a key of its own:

- a member: its session, or the time that a new member is kept without a sign of life;
- the join phase: the delay of an initial rebalance, or the rebalance timeout, after which the
  generation begins without those who did not join again;
- the sync phase: the rebalance timeout, after which those without SyncGroup are removed.

A deadline that comes after its reason is gone does nothing: each names group, member or generation,
which are looked up again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaa.coordinators.group.classic.group import ClassicGroupState
from kaa.coordinators.group.classic.records import group_record
from kaa.coordinators.machine import error_for_clients
from kaa.wire.errors import Errors
from kaa.wire.messages.k11_join_group import JoinGroupResponse, JoinGroupResponseMember
from kaa.wire.messages.k14_sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaa.coordinators.group.classic.group import ClassicGroup, ClassicMember
    from kaa.coordinators.group.outcome import Outcome
    from kaa.coordinators.group.settings import GroupSettings
    from kaa.coordinators.machine import Moment
    from kaa.coordinators.timers import Timers

_EMPTY = ClassicGroupState.EMPTY
_PREPARING = ClassicGroupState.PREPARING_REBALANCE
_COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
_STABLE = ClassicGroupState.STABLE


@dataclass(frozen=True, slots=True)
class MemberExpired:
    """No sign of life from a member."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class InitialDelayOver:
    """The first rebalance of a group has waited long enough for more members."""

    group_id: str
    delay_ms: int
    remaining_ms: int


@dataclass(frozen=True, slots=True)
class JoinPhaseOver:
    """Members had their time to join."""

    group_id: str


@dataclass(frozen=True, slots=True)
class SyncPhaseOver:
    """Members had their time to ask for their assignment."""

    group_id: str
    generation_id: int


@dataclass(frozen=True, slots=True)
class AssignmentStored:
    """The assignment of a generation is committed, or failed to be."""

    group_id: str
    generation_id: int
    assignments: Mapping[str, bytes]


Deadline = MemberExpired | InitialDelayOver | JoinPhaseOver | SyncPhaseOver


class Rebalances:
    """Takes the classic groups of one shard from one generation to the next. Changes groups in
    memory; the records of a finished generation are in the results.
    """

    def __init__(self, timers: Timers[object], settings: Callable[[], GroupSettings]) -> None:
        self.timers = timers
        self.settings = settings

    # --- deadlines

    def expect_heartbeat(
        self, group: ClassicGroup, member: ClassicMember, now: Moment, timeout_ms: int | None = None
    ) -> None:
        """The member is alive now, and is to say so again within its session timeout."""
        if timeout_ms is None:
            timeout_ms = member.session_timeout_ms
        self.expect_id(group.group_id, member.member_id, now, timeout_ms)

    def expect_id(self, group_id: str, member_id: str, now: Moment, timeout_ms: int) -> None:
        self.timers.schedule(
            ("member", group_id, member_id),
            now.monotonic_ms + timeout_ms,
            MemberExpired(group_id, member_id),
        )

    def forget_member(self, group: ClassicGroup, member_id: str) -> None:
        self.timers.cancel(("member", group.group_id, member_id))

    def _schedule_join(
        self, group: ClassicGroup, now: Moment, delay_ms: int, event: Deadline
    ) -> None:
        self.timers.schedule(("join", group.group_id), now.monotonic_ms + delay_ms, event)

    def expire(self, group: ClassicGroup, event: Deadline, now: Moment, outcome: Outcome) -> None:
        """Acts on a deadline of the group."""
        match event:
            case MemberExpired(_, member_id):
                self._expire_member(group, member_id, now, outcome)
            case InitialDelayOver(_, delay_ms, remaining_ms):
                self._expire_initial_delay(group, delay_ms, remaining_ms, now, outcome)
            case JoinPhaseOver():
                self.complete_join(group, now, outcome)
            case SyncPhaseOver(_, generation_id):
                self._expire_sync(group, generation_id, now, outcome)

    def _expire_member(
        self, group: ClassicGroup, member_id: str, now: Moment, outcome: Outcome
    ) -> None:
        if member_id in group.pending_joins:
            group.remove(member_id)
            if group.is_in(_PREPARING) and group.have_all_joined:
                self.complete_join(group, now, outcome)
            return
        member = group.members.get(member_id)
        if member is not None and not member.needs_no_heartbeat:
            self.remove_member(group, member, outcome)
            self.after_removal(group, now, outcome)

    def _expire_initial_delay(
        self, group: ClassicGroup, delay_ms: int, remaining_ms: int, now: Moment, outcome: Outcome
    ) -> None:
        if not group.is_member_added or remaining_ms == 0:
            self.complete_join(group, now, outcome)
            return
        group.is_member_added = False
        next_delay_ms = min(self.settings().initial_rebalance_delay_ms, remaining_ms)
        next_remaining_ms = max(remaining_ms - delay_ms, 0)
        event = InitialDelayOver(group.group_id, next_delay_ms, next_remaining_ms)
        self._schedule_join(group, now, next_delay_ms, event)

    def _expire_sync(
        self, group: ClassicGroup, generation_id: int, now: Moment, outcome: Outcome
    ) -> None:
        if generation_id != group.generation_id or not group.is_in(_COMPLETING, _STABLE):
            return
        if group.pending_syncs:
            for member_id in tuple(group.pending_syncs):
                group.remove(member_id)
                self.forget_member(group, member_id)
            self.prepare(group, now, outcome)

    # --- members

    def remove_member(self, group: ClassicGroup, member: ClassicMember, outcome: Outcome) -> None:
        """Takes a member out. One that waits to join is asked to come again."""
        outcome.reply(
            group.take_waiting_join(member),
            JoinGroupResponse(error_code=Errors.UNKNOWN_MEMBER_ID),
        )
        waiter, member.waiting_sync = member.waiting_sync, None
        outcome.reply(waiter, SyncGroupResponse(error_code=Errors.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)

    def after_removal(self, group: ClassicGroup, now: Moment, outcome: Outcome) -> None:
        if group.is_in(_STABLE, _COMPLETING):
            self.prepare_or_complete(group, now, outcome)
        elif group.is_in(_PREPARING) and group.have_all_joined:
            self.complete_join(group, now, outcome)

    # --- the join phase

    def prepare_or_complete(self, group: ClassicGroup, now: Moment, outcome: Outcome) -> None:
        """Begins a rebalance, or goes on with the one that is under way."""
        if group.can_rebalance:
            self.prepare(group, now, outcome)
        else:
            self.maybe_complete(group, now, outcome)

    def prepare(self, group: ClassicGroup, now: Moment, outcome: Outcome) -> None:
        if group.is_in(_COMPLETING):
            self.propagate(group, {}, Errors.REBALANCE_IN_PROGRESS, now, outcome)
        self.end_sync_phase(group)
        is_initial = group.is_in(_EMPTY)
        if is_initial:
            delay_ms = self.settings().initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            event = InitialDelayOver(group.group_id, delay_ms, remaining_ms)
            self._schedule_join(group, now, delay_ms, event)
        group.transition_to(_PREPARING, now.wall_ms)
        if is_initial:
            return
        if group.have_all_joined:
            self.complete_join(group, now, outcome)
        else:
            event_over = JoinPhaseOver(group.group_id)
            self._schedule_join(group, now, group.rebalance_timeout_ms, event_over)

    def maybe_complete(self, group: ClassicGroup, now: Moment, outcome: Outcome) -> None:
        """Ends the join phase if nobody is missing; an initial one waits for its delay."""
        if group.is_in(_PREPARING) and group.previous_state is not _EMPTY and group.have_all_joined:
            self.complete_join(group, now, outcome)

    def complete_join(self, group: ClassicGroup, now: Moment, outcome: Outcome) -> None:
        """Begins the next generation with those who joined; static members may be absent."""
        self.timers.cancel(("join", group.group_id))
        for member in tuple(group.members.values()):
            if member.waiting_join is None and not member.is_static:
                group.remove(member.member_id)
                self.forget_member(group, member.member_id)
        if group.is_in(ClassicGroupState.DEAD):
            return
        if not group.elect_joined_leader() and group.members:
            # Only static members are left, and none of them is here: their sessions decide.
            event = JoinPhaseOver(group.group_id)
            self._schedule_join(group, now, group.rebalance_timeout_ms, event)
            return
        group.begin_generation(now.wall_ms)
        if group.is_in(_EMPTY):
            outcome.store(group_record(group, {}))
            return
        for member in group.members.values():
            outcome.reply(group.take_waiting_join(member), self.joined(group, member))
            self.expect_heartbeat(group, member, now)
            member.is_new = False
            group.pending_syncs.add(member.member_id)
        self.timers.schedule(
            ("sync", group.group_id),
            now.monotonic_ms + group.rebalance_timeout_ms,
            SyncPhaseOver(group.group_id, group.generation_id),
        )

    def joined(
        self, group: ClassicGroup, member: ClassicMember, *, skip_assignment: bool = False
    ) -> JoinGroupResponse:
        """What a member of the current generation learns; the leader gets all members."""
        members = []
        if group.is_leader(member.member_id):
            members = [
                JoinGroupResponseMember(
                    member_id=one.member_id,
                    group_instance_id=one.group_instance_id,
                    metadata=one.metadata(group.protocol_name),
                )
                for one in group.members.values()
            ]
        return joined_without_members(
            group,
            member.member_id,
            group.leader_id or "",
            members=members,
            skip_assignment=skip_assignment,
        )

    # --- the sync phase

    def end_sync_phase(self, group: ClassicGroup) -> None:
        group.pending_syncs.clear()
        self.timers.cancel(("sync", group.group_id))

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """The member asked for its assignment."""
        group.pending_syncs.discard(member_id)
        if not group.is_in(_COMPLETING, _STABLE) or not group.pending_syncs:
            self.timers.cancel(("sync", group.group_id))

    def assignment_stored(
        self,
        group: ClassicGroup,
        event: AssignmentStored,
        error: Errors,
        now: Moment,
        outcome: Outcome,
    ) -> None:
        if not group.is_in(_COMPLETING) or event.generation_id != group.generation_id:
            # Another rebalance has begun meanwhile, and everybody was notified.
            return
        if error is Errors.NONE:
            self.propagate(group, event.assignments, Errors.NONE, now, outcome)
            group.transition_to(_STABLE, now.wall_ms)
        else:
            self.propagate(group, {}, error_for_clients(error), now, outcome)
            self.prepare_or_complete(group, now, outcome)

    def propagate(
        self,
        group: ClassicGroup,
        assignments: Mapping[str, bytes],
        error: Errors,
        now: Moment,
        outcome: Outcome,
    ) -> None:
        """Answers those who wait for their assignment."""
        is_good = error is Errors.NONE
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            waiter, member.waiting_sync = member.waiting_sync, None
            if waiter is None:
                continue
            outcome.reply(
                waiter,
                SyncGroupResponse(
                    error_code=error,
                    protocol_type=group.protocol_type if is_good else None,
                    protocol_name=group.protocol_name if is_good else None,
                    assignment=member.assignment,
                ),
            )
            # Its session may have run out while it waited, which did not count.
            self.expect_heartbeat(group, member, now)


def joined_without_members(
    group: ClassicGroup,
    member_id: str,
    leader_id: str,
    *,
    error: Errors = Errors.NONE,
    members: list[JoinGroupResponseMember] | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader_id,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members or [],
    )
