"""The requests of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.classic.group import ClassicGroup, ClassicGroupState
from kaa.coordinators.group.classic.join import Join, StaticMemberStored, static_member_stored
from kaa.coordinators.group.classic.rebalance import AssignmentStored, Rebalances
from kaa.coordinators.group.classic.records import group_record, new_group_record
from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.consumer.records import group_tombstones as consumer_tombstones
from kaa.coordinators.group.outcome import Outcome
from kaa.coordinators.group.streams.group import StreamsGroup
from kaa.coordinators.group.streams.records import group_tombstones as streams_tombstones
from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.wire.errors import Errors
from kaa.wire.messages.k11_join_group import JoinGroupResponse
from kaa.wire.messages.k14_sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.coordinators.group.classic.rebalance import Deadline
    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.group.outcome import Client
    from kaa.coordinators.group.settings import GroupSettings
    from kaa.coordinators.machine import Moment, Reply, Waiter
    from kaa.coordinators.timeline import TimelineDict
    from kaa.coordinators.timers import Timers
    from kaa.wire.messages.k11_join_group import JoinGroupRequest
    from kaa.wire.messages.k12_heartbeat import HeartbeatRequest
    from kaa.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
    from kaa.wire.messages.k14_sync_group import SyncGroupRequest

_EMPTY = ClassicGroupState.EMPTY
_PREPARING = ClassicGroupState.PREPARING_REBALANCE
_COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
_STABLE = ClassicGroupState.STABLE
_DEAD = ClassicGroupState.DEAD


Stored = AssignmentStored | StaticMemberStored


class ClassicGroups:
    """What classic groups do. The groups themselves belong to the machine."""

    def __init__(
        self,
        groups: TimelineDict[str, Group],
        timers: Timers[object],
        settings: Callable[[], GroupSettings],
        new_id: Callable[[], str],
    ) -> None:
        self._groups = groups
        self._new_id = new_id
        self.rebalances = Rebalances(timers, settings)

    def _find(self, group_id: str) -> ClassicGroup | None:
        """The classic group of this name; it may have become a consumer group meanwhile."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # --- requests

    def join(
        self, request: JoinGroupRequest, client: Client, waiter: Waiter, now: Moment
    ) -> CoordinatorResult:
        outcome = Outcome()
        group = self._find(request.group_id)
        is_new = group is None
        # A consumer or streams group without members gives way.
        before = self._groups.get(request.group_id)
        if group is None:
            if request.member_id:
                outcome.reply(
                    waiter,
                    JoinGroupResponse(
                        member_id=request.member_id, error_code=Errors.UNKNOWN_MEMBER_ID
                    ),
                )
                return outcome.result()
            group = self._groups[request.group_id] = ClassicGroup(request.group_id, now.wall_ms)
        Join(self.rebalances, group, request, client, waiter, now, outcome).run(self._new_id)
        if is_new:
            # Without a record, the group would not be in committed memory.
            assert not outcome.records
            if isinstance(before, ConsumerGroup):
                outcome.records += consumer_tombstones(before)
            elif isinstance(before, StreamsGroup):
                outcome.records += streams_tombstones(before)
            outcome.store(new_group_record(group))
        return outcome.result()

    def sync(self, request: SyncGroupRequest, waiter: Waiter, now: Moment) -> CoordinatorResult:
        outcome = Outcome()
        group = self._find(request.group_id)
        try:
            if group is None or group.is_in(_EMPTY):
                raise CoordinatorError(Errors.UNKNOWN_MEMBER_ID)
            _validate_sync(group, request)
            if group.is_in(_PREPARING):
                raise CoordinatorError(Errors.REBALANCE_IN_PROGRESS)
        except CoordinatorError as refusal:
            outcome.reply(waiter, SyncGroupResponse(error_code=refusal.error))
            return outcome.result()
        member = group.members[request.member_id]
        self.rebalances.synced(group, member.member_id)
        if group.is_in(_STABLE):
            response = SyncGroupResponse(
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                assignment=member.assignment,
            )
            outcome.reply(waiter, response)
            return outcome.result()
        earlier, member.waiting_sync = member.waiting_sync, waiter
        outcome.reply(earlier, SyncGroupResponse(error_code=Errors.REBALANCE_IN_PROGRESS))
        if group.is_leader(member.member_id):
            assignments = dict.fromkeys(group.members, b"")
            for given in request.assignments:
                if given.member_id in assignments:
                    assignments[given.member_id] = bytes(given.assignment)
            event = AssignmentStored(group.group_id, group.generation_id, assignments)
            outcome.store(group_record(group, assignments), event)
        return outcome.result()

    def heartbeat(self, request: HeartbeatRequest, now: Moment) -> CoordinatorResult:
        """The response is whether the member has to join again."""
        group = self._find(request.group_id)
        if group is None:
            raise CoordinatorError(Errors.UNKNOWN_MEMBER_ID)
        if group.is_in(_DEAD):
            raise CoordinatorError(Errors.COORDINATOR_NOT_AVAILABLE)
        group.validate_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise CoordinatorError(Errors.ILLEGAL_GENERATION)
        self.rebalances.expect_heartbeat(group, group.members[request.member_id], now)
        error = Errors.REBALANCE_IN_PROGRESS if group.is_in(_PREPARING) else Errors.NONE
        return CoordinatorResult(response=error)

    def leave(self, request: LeaveGroupRequest, now: Moment) -> CoordinatorResult:
        """The response is how it went with each member."""
        group = self._find(request.group_id)
        if group is None:
            raise CoordinatorError(Errors.UNKNOWN_MEMBER_ID)
        if group.is_in(_DEAD):
            raise CoordinatorError(Errors.COORDINATOR_NOT_AVAILABLE)
        outcome = Outcome()
        errors = [self._leave_one(group, identity, outcome) for identity in request.members]
        has_left = Errors.NONE in errors
        if has_left and group.is_in(_STABLE, _COMPLETING):
            self.rebalances.prepare_or_complete(group, now, outcome)
        elif has_left and group.is_in(_PREPARING):
            self.rebalances.maybe_complete(group, now, outcome)
        return outcome.result(errors)

    def _leave_one(self, group: ClassicGroup, identity: MemberIdentity, outcome: Outcome) -> Errors:
        member_id = identity.member_id
        if not member_id:
            # An administrator removes a static member by its group instance id alone.
            known = group.static_members.get(identity.group_instance_id or "")
            if known is None:
                return Errors.UNKNOWN_MEMBER_ID
            member_id = known
        elif member_id in group.pending_joins:
            group.remove(member_id)
            self.rebalances.forget_member(group, member_id)
            return Errors.NONE
        else:
            try:
                group.validate_member(member_id, identity.group_instance_id)
            except CoordinatorError as refusal:
                return refusal.error
        self.rebalances.forget_member(group, member_id)
        self.rebalances.remove_member(group, group.members[member_id], outcome)
        return Errors.NONE

    # --- what comes later

    def stored(self, event: Stored, error: Errors, now: Moment) -> CoordinatorResult:
        """Records of a group are committed, or failed to be."""
        outcome = Outcome()
        group = self._find(event.group_id)
        if group is None:
            return outcome.result()
        if isinstance(event, AssignmentStored):
            self.rebalances.assignment_stored(group, event, error, now, outcome)
        else:
            static_member_stored(self.rebalances, group, event, error, now, outcome)
        return outcome.result()

    def expire(self, event: Deadline, now: Moment) -> CoordinatorResult:
        outcome = Outcome()
        group = self._find(event.group_id)
        if group is not None and not group.is_in(_DEAD):
            self.rebalances.expire(group, event, now, outcome)
        return outcome.result()

    # --- life of the machine

    def loaded(self, group: ClassicGroup, now: Moment, outcome: Outcome) -> None:
        """Gives the members of a loaded group their sessions."""
        for member in group.members.values():
            self.rebalances.expect_heartbeat(group, member, now)
        if len(group.members) > self.rebalances.settings().classic_size_max:
            self.rebalances.prepare(group, now, outcome)

    def unloaded(self, groups: Iterable[ClassicGroup]) -> list[Reply]:
        """Tells everybody who waits that another broker coordinates the group."""
        outcome = Outcome()
        for group in groups:
            group.transition_to(_DEAD, group.state_timestamp_ms or 0)
            for member in group.members.values():
                outcome.reply(
                    group.take_waiting_join(member),
                    JoinGroupResponse(
                        member_id=member.member_id, error_code=Errors.NOT_COORDINATOR
                    ),
                )
                waiter, member.waiting_sync = member.waiting_sync, None
                outcome.reply(waiter, SyncGroupResponse(error_code=Errors.NOT_COORDINATOR))
        return outcome.replies


def _validate_sync(group: ClassicGroup, request: SyncGroupRequest) -> None:
    if group.is_in(_DEAD):
        raise CoordinatorError(Errors.COORDINATOR_NOT_AVAILABLE)
    group.validate_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation_id:
        raise CoordinatorError(Errors.ILLEGAL_GENERATION)
    for asked, known in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if asked is not None and known is not None and asked != known:
            raise CoordinatorError(Errors.INCONSISTENT_GROUP_PROTOCOL)
