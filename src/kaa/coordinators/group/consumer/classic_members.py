"""Members of a consumer group that speak the classic protocol.

To such a member its epoch is a generation, and the coordinator leads the group: JoinGroup is
answered at once, without waiting for others, and SyncGroup gives what the member has. The
answers to its heartbeats call it to join again when it has a step to take: to a newer target, after
giving partitions up, or when somebody has released what it waits for. It has its rebalance timeout
for each join and sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.classic.group import CONSUMER_PROTOCOL_TYPE
from kaa.coordinators.group.consumer.groups import check_instance, replace_member
from kaa.coordinators.group.consumer.member import ConsumerMember, MemberState
from kaa.coordinators.group.consumer.migration import can_downgrade_replacing
from kaa.coordinators.group.consumer.protocol import read_subscription, write_assignment
from kaa.coordinators.group.consumer.reconcile import MemberTarget
from kaa.coordinators.group.consumer.regex import RegexChange
from kaa.coordinators.group.consumer.update import Update
from kaa.coordinators.group.outcome import Outcome
from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k11_join_group import JoinGroupResponse
from kaa.wire.messages.k14_sync_group import SyncGroupResponse
from kaa.wire.messages.offsets_consumer import ClassicMemberMetadata, ClassicProtocol
from kaa.wire.primitives import WireError

if TYPE_CHECKING:
    from kaa.coordinators.group.consumer.group import ConsumerGroup
    from kaa.coordinators.group.consumer.groups import ConsumerGroups
    from kaa.coordinators.group.consumer.reconcile import Reported
    from kaa.coordinators.group.outcome import Client
    from kaa.coordinators.machine import Moment, Waiter
    from kaa.wire.messages.embedded import ConsumerProtocolSubscription
    from kaa.wire.messages.k11_join_group import JoinGroupRequest
    from kaa.wire.messages.k12_heartbeat import HeartbeatRequest
    from kaa.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
    from kaa.wire.messages.k14_sync_group import SyncGroupRequest
    from kaa.wire.primitives import Uuid

# From this version of JoinGroup on, a new dynamic member comes again with the id it is given.
_ID_REQUIRED_VERSION: Final = 4


class ClassicMembers:
    """Answers the classic requests of members of consumer groups: each method gives the records and
    the response.
    """

    def __init__(self, groups: ConsumerGroups) -> None:
        self._groups = groups

    # --- joining

    def join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        client: Client,
        waiter: Waiter,
        now: Moment,
    ) -> CoordinatorResult:
        groups, settings = self._groups, self._groups.settings()
        if not settings.is_upgrade_enabled and not settings.is_downgrade_enabled:
            raise CoordinatorError(Errors.INCONSISTENT_GROUP_PROTOCOL)
        is_unknown = not request.member_id
        member_id = request.member_id or groups.new_id()
        groups.check_size(group, member_id)
        names = [protocol.name for protocol in request.protocols]
        if not group.supports_classic(request.protocol_type, names):
            raise CoordinatorError(Errors.INCONSISTENT_GROUP_PROTOCOL)
        outcome = Outcome()
        is_static = request.group_instance_id is not None
        if is_unknown and not is_static and client.api_version >= _ID_REQUIRED_VERSION:
            error = Errors.MEMBER_ID_REQUIRED
            outcome.reply(waiter, JoinGroupResponse(member_id=member_id, error_code=error))
            return outcome.result()
        replaced = group.static_member(request.group_instance_id)
        is_downgrade = can_downgrade_replacing(group, replaced, settings)
        member = self._member_of(group, request, member_id, outcome)
        subscription = _subscription(request)
        updated = _updated(member, request, client, subscription)
        surroundings = groups.surroundings(group, now)
        update = Update(group, member, updated, surroundings, outcome.records)
        names_changed = update.store_member()
        has_changed = groups.change_regex(update, now) is not RegexChange.NONE or names_changed
        update.bump_epoch(is_needed=has_changed)
        reported = self._reported(subscription)
        if is_downgrade:
            self._downgrade(update, reported, has_changed, now, outcome)
        else:
            target = finish(update.assign())
            groups.compute_later(update, now)
            finish(update.reconcile(target, reported, has_subscription_changed=has_changed))
            timeout_ms = request.session_timeout_ms
            groups.timers.expect_heartbeat(group.group_id, member_id, timeout_ms, now)
            timeout_ms = update.updated.rebalance_timeout_ms
            groups.timers.expect_sync(group.group_id, member_id, timeout_ms, now)
        groups.timers.forget_join(group.group_id, member_id)
        response = JoinGroupResponse(
            member_id=member_id,
            generation_id=update.updated.member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=names[0],
            members=[],
        )
        return outcome.result(response)

    def _member_of(
        self, group: ConsumerGroup, request: JoinGroupRequest, member_id: str, outcome: Outcome
    ) -> ConsumerMember:
        instance_id = request.group_instance_id
        if instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        known = group.static_member(instance_id)
        if request.member_id:
            return check_instance(known, member_id, instance_id)
        if known is None:
            return ConsumerMember(member_id)
        return replace_member(group, known, member_id, outcome.records)

    def _downgrade(
        self,
        update: Update,
        reported: Reported,
        has_changed: bool,
        now: Moment,
        outcome: Outcome,
    ) -> None:
        """The last member with the consumer protocol comes back with the classic one."""
        group = update.group
        is_behind = group.assignment_epoch < update.group_epoch
        if not is_behind:
            target = MemberTarget(group.assignment_epoch, group.target_of(update.updated))
            finish(update.reconcile(target, reported, has_subscription_changed=has_changed))
        self._groups.downgrade(
            group, (), update.updated, now, outcome, is_rebalance_needed=is_behind
        )

    def _reported(self, subscription: ConsumerProtocolSubscription) -> Reported:
        owned: dict[Uuid, list[int]] = {}
        for topic in subscription.owned_partitions:
            topic_id = self._groups.topics.topic_id(topic.topic)
            if topic_id is not None:
                owned[topic_id] = topic.partitions
        return owned

    # --- staying

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, now: Moment
    ) -> CoordinatorResult:
        member = _validated(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        assert member.classic is not None
        (protocol, *_) = member.classic.supported_protocols
        for asked, known in (
            (request.protocol_type, CONSUMER_PROTOCOL_TYPE),
            (request.protocol_name, protocol.name),
        ):
            if asked is not None and asked != known:
                raise CoordinatorError(Errors.INCONSISTENT_GROUP_PROTOCOL)
        timers, group_id = self._groups.timers, group.group_id
        is_behind = group.assignment_epoch > member.member_epoch
        if is_behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
            timers.expect_join(group_id, member, now)
            raise CoordinatorError(Errors.REBALANCE_IN_PROGRESS)
        timers.forget_sync(group_id, member.member_id)
        timeout_ms = member.classic.session_timeout_ms
        timers.expect_heartbeat(group_id, member.member_id, timeout_ms, now)
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(
                member.assigned, self._groups.topics, bytes(protocol.metadata)
            ),
        )
        return CoordinatorResult(response=response)

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, now: Moment
    ) -> CoordinatorResult:
        member = _validated(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        assert member.classic is not None
        timers = self._groups.timers
        timeout_ms = member.classic.session_timeout_ms
        timers.expect_heartbeat(group.group_id, member.member_id, timeout_ms, now)
        is_released = (
            member.state is MemberState.UNRELEASED_PARTITIONS
            and not group.is_waiting_for_release(member)
        )
        error = Errors.NONE
        if (
            member.member_epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or is_released
        ):
            error = Errors.REBALANCE_IN_PROGRESS
            timers.expect_join(group.group_id, member, now)
        return CoordinatorResult(response=error)

    # --- leaving

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, now: Moment
    ) -> CoordinatorResult:
        errors: list[Errors] = []
        leaving: dict[str, ConsumerMember] = {}
        for identity in request.members:
            error = Errors.NONE
            try:
                member = _leaving(group, identity)
                leaving[member.member_id] = member
            except CoordinatorError as refusal:
                error = refusal.error
            errors.append(error)
        return self._groups.fence(group, leaving.values(), now, errors)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(bytes(request.protocols[0].metadata))
    except WireError:
        raise CoordinatorError(Errors.UNKNOWN_SERVER_ERROR) from None


def _updated(
    member: ConsumerMember,
    request: JoinGroupRequest,
    client: Client,
    subscription: ConsumerProtocolSubscription,
) -> ConsumerMember:
    # Version 0 has one timeout for both.
    timeout_ms = request.rebalance_timeout_ms
    timeout_ms = request.session_timeout_ms if timeout_ms == -1 else timeout_ms
    return member._replace(
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        # The classic protocol has no such thing: clients match patterns themselves.
        subscribed_topic_regex="",
        client_id=client.client_id,
        client_host=client.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=one.name, metadata=bytes(one.metadata))
                for one in request.protocols
            ],
        ),
    )


def _validated(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """A member that speaks the classic protocol."""
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = check_instance(group.static_member(instance_id), member_id, instance_id)
    if not member.uses_classic_protocol:
        raise CoordinatorError(Errors.UNKNOWN_MEMBER_ID)
    return member


def _check_generation(member: ConsumerMember, generation_id: int) -> None:
    if member.member_epoch != generation_id:
        raise CoordinatorError(Errors.ILLEGAL_GENERATION)


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    if identity.group_instance_id is None:
        return group.member(identity.member_id)
    known = group.static_member(identity.group_instance_id)
    # An administrator removes a static member by its group instance id alone.
    member_id = identity.member_id or ("" if known is None else known.member_id)
    return check_instance(known, member_id, identity.group_instance_id)
