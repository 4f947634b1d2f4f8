"""JoinGroup: how clients become members of a classic group, and take part in rebalances.

A client without a member id is new. A dynamic one is given an id to come again with
(KIP-394, from version 4 on), so that clients which vanish while they wait do not stay as members.
A static one (KIP-345) is known by its group instance id: if that is in the group, the client takes
the place of the member that had it, and in a stable group nothing else changes.

A client with an id is a member, or was given the id a moment ago. Whether its request leads to a
rebalance depends on the state of the group and on what has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaa.coordinators.group.classic.group import ClassicGroupState, ClassicMember
from kaa.coordinators.group.classic.rebalance import joined_without_members
from kaa.coordinators.group.classic.records import group_record
from kaa.coordinators.machine import CoordinatorError, error_for_clients
from kaa.limits import CLASSIC_GROUP_NEW_MEMBER_JOIN_MS
from kaa.wire.errors import Errors
from kaa.wire.messages.k11_join_group import JoinGroupResponse
from kaa.wire.messages.k14_sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.coordinators.group.classic.group import ClassicGroup, Protocols
    from kaa.coordinators.group.classic.rebalance import Rebalances
    from kaa.coordinators.group.outcome import Client, Outcome
    from kaa.coordinators.machine import Moment, Waiter
    from kaa.wire.messages.k11_join_group import JoinGroupRequest

_EMPTY = ClassicGroupState.EMPTY
_PREPARING = ClassicGroupState.PREPARING_REBALANCE
_COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
_STABLE = ClassicGroupState.STABLE
_DEAD = ClassicGroupState.DEAD

# Versions from which a client has to come again with the id it was given, and from which a leader
# may be asked to keep the assignment as it is.
_MEMBER_ID_REQUIRED_VERSION = 4
_SKIP_ASSIGNMENT_VERSION = 9


@dataclass(frozen=True, slots=True)
class StaticMemberStored:
    """The new id of a static member of a stable group is committed, or failed to be."""

    group_id: str
    generation_id: int
    old_member_id: str
    new_member_id: str
    leader_before: str
    protocols_before: Protocols
    rebalance_timeout_ms_before: int
    session_timeout_ms_before: int
    api_version: int


class Join:
    """One request on its way through a group."""

    def __init__(
        self,
        rebalances: Rebalances,
        group: ClassicGroup,
        request: JoinGroupRequest,
        client: Client,
        waiter: Waiter,
        now: Moment,
        outcome: Outcome,
    ) -> None:
        self.rebalances = rebalances
        self.group = group
        self.request = request
        self.client = client
        self.waiter = waiter
        self.now = now
        self.outcome = outcome
        self.protocols: Protocols = tuple(
            (protocol.name, bytes(protocol.metadata)) for protocol in request.protocols
        )
        # Version 0 has no rebalance timeout of its own.
        self.rebalance_timeout_ms = (
            request.session_timeout_ms if client.api_version == 0 else request.rebalance_timeout_ms
        )

    def run(self, new_id: Callable[[], str]) -> None:
        request, group = self.request, self.group
        if not self._is_accepted():
            group.remove(request.member_id)
            self._refuse("", Errors.GROUP_MAX_SIZE_REACHED)
        elif group.is_in(_DEAD):
            self._refuse(request.member_id, Errors.COORDINATOR_NOT_AVAILABLE)
        elif not group.supports(request.protocol_type, self.protocols):
            self._refuse(request.member_id, Errors.INCONSISTENT_GROUP_PROTOCOL)
        elif request.member_id:
            self._known_id()
        else:
            self._new_member(new_id)

    def _is_accepted(self) -> bool:
        """Whether there is room in the group."""
        group, member_id = self.group, self.request.member_id
        size_max = self.rebalances.settings().classic_size_max
        if group.is_in(_EMPTY, _DEAD):
            return True
        member = group.members.get(member_id)
        if group.is_in(_PREPARING):
            # Those who wait are counted, not members: if the bound was lowered, the last ones to
            # join again have no place.
            is_waiting = member is not None and member.waiting_join is not None
            return is_waiting or group.waiting_joins < size_max
        return member is not None or len(group.members) < size_max

    def _refuse(self, member_id: str, error: Errors) -> None:
        self.outcome.reply(self.waiter, JoinGroupResponse(member_id=member_id, error_code=error))

    # --- new members

    def _new_member(self, new_id: Callable[[], str]) -> None:
        request, group = self.request, self.group
        instance_id = request.group_instance_id
        prefix = self.client.client_id if instance_id is None else instance_id
        member_id = f"{prefix}-{new_id()}"
        if instance_id is not None:
            known = group.static_members.get(instance_id)
            if known is None:
                self._add(member_id)
            else:
                self._replace_static(known, member_id)
        elif self.client.api_version >= _MEMBER_ID_REQUIRED_VERSION:
            group.pending_joins.add(member_id)
            self.rebalances.expect_id(
                group.group_id, member_id, self.now, request.session_timeout_ms
            )
            self._refuse(member_id, Errors.MEMBER_ID_REQUIRED)
        else:
            self._add(member_id)

    def _add(self, member_id: str) -> None:
        request, group = self.request, self.group
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            self.client.client_id,
            self.client.client_host,
            self.rebalance_timeout_ms,
            request.session_timeout_ms,
            self.protocols,
        )
        member.is_new = True
        member.waiting_join = self.waiter
        if group.is_in(_PREPARING) and group.previous_state is _EMPTY:
            group.is_member_added = True
        group.add(member, request.protocol_type)
        # It cannot send heartbeats while it waits, and its disconnection is not seen.
        self.rebalances.expect_heartbeat(group, member, self.now, CLASSIC_GROUP_NEW_MEMBER_JOIN_MS)
        self.rebalances.prepare_or_complete(group, self.now, self.outcome)

    def _replace_static(self, old_member_id: str, new_member_id: str) -> None:
        """The client takes the place of the member with its group instance id."""
        group, outcome = self.group, self.outcome
        leader_before = group.leader_id or ""
        old = group.members[old_member_id]
        outcome.reply(
            group.take_waiting_join(old),
            JoinGroupResponse(member_id=old_member_id, error_code=Errors.FENCED_INSTANCE_ID),
        )
        waiter, old.waiting_sync = old.waiting_sync, None
        outcome.reply(waiter, SyncGroupResponse(error_code=Errors.FENCED_INSTANCE_ID))
        before = (old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
        member = group.replace_static_member(old_member_id, new_member_id)
        self.rebalances.forget_member(group, old_member_id)
        self.rebalances.expect_heartbeat(group, member, self.now)
        self._update(member)
        if group.is_in(_STABLE) and group.protocol_name == group.select_protocol():
            assignments = {one.member_id: one.assignment for one in group.members.values()}
            event = StaticMemberStored(
                group.group_id,
                group.generation_id,
                old_member_id,
                new_member_id,
                leader_before,
                *before,
                self.client.api_version,
            )
            outcome.store(group_record(group, assignments), event)
        elif group.is_in(_STABLE):
            self.rebalances.prepare_or_complete(group, self.now, outcome)
        elif group.is_in(_COMPLETING):
            # The leader may already be assigning to the old id.
            self.rebalances.prepare(group, self.now, outcome)
        else:
            self.rebalances.maybe_complete(group, self.now, outcome)

    # --- clients with an id

    def _known_id(self) -> None:
        request, group = self.request, self.group
        member_id = request.member_id
        if member_id in group.pending_joins and request.group_instance_id is None:
            self._add(member_id)
            return
        try:
            group.validate_member(member_id, request.group_instance_id)
        except CoordinatorError as refusal:
            response = JoinGroupResponse(member_id=member_id, error_code=refusal.error)
            self.outcome.reply(self.waiter, response)
            return
        member = group.members[member_id]
        is_same = member.protocols == self.protocols
        if group.is_in(_PREPARING):
            self._rejoin(member)
        elif group.is_in(_COMPLETING):
            if is_same:
                # The answer of the join phase did not reach it.
                self.outcome.reply(self.waiter, self.rebalances.joined(group, member))
            else:
                self._rejoin(member)
        elif group.is_in(_STABLE):
            if group.is_leader(member_id) or not is_same:
                # A leader joins again when something else than metadata calls for a rebalance.
                self._rejoin(member)
            else:
                response = joined_without_members(group, member_id, group.leader_id or "")
                self.outcome.reply(self.waiter, response)
        else:
            self._refuse(member_id, Errors.UNKNOWN_MEMBER_ID)

    def _rejoin(self, member: ClassicMember) -> None:
        self._update(member)
        self.rebalances.prepare_or_complete(self.group, self.now, self.outcome)

    def _update(self, member: ClassicMember) -> None:
        request = self.request
        self.group.update(
            member, self.protocols, self.rebalance_timeout_ms, request.session_timeout_ms
        )
        earlier = self.group.wait_join(member, self.waiter)
        # An earlier request of the same member can only come from a connection it has given up.
        self.outcome.reply(
            earlier,
            JoinGroupResponse(member_id=member.member_id, error_code=Errors.REBALANCE_IN_PROGRESS),
        )


def static_member_stored(
    rebalances: Rebalances,
    group: ClassicGroup,
    event: StaticMemberStored,
    error: Errors,
    now: Moment,
    outcome: Outcome,
) -> None:
    """Answers the static member that took a place in a stable group, or gives the place back."""
    member = group.members.get(event.new_member_id)
    if member is None:
        return
    if error is not Errors.NONE:
        waiter = group.take_waiting_join(member)
        group.update(
            member,
            event.protocols_before,
            event.rebalance_timeout_ms_before,
            event.session_timeout_ms_before,
        )
        rebalances.forget_member(group, event.new_member_id)
        old = group.replace_static_member(event.new_member_id, event.old_member_id)
        rebalances.expect_heartbeat(group, old, now)
        response = joined_without_members(
            group, "", event.leader_before, error=error_for_clients(error)
        )
        outcome.reply(waiter, response)
        return
    if group.generation_id != event.generation_id or not group.is_in(_STABLE):
        # A rebalance has begun meanwhile: the member waits for it like the others.
        return
    if event.api_version >= _SKIP_ASSIGNMENT_VERSION:
        is_leader = group.is_leader(event.new_member_id)
        response = rebalances.joined(group, member, skip_assignment=is_leader)
    else:
        # The leader before version 9 must not think that it is one: it would assign again.
        response = joined_without_members(group, event.new_member_id, event.leader_before)
    outcome.reply(group.take_waiting_join(member), response)
