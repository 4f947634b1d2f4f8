"""The request of consumer groups: ConsumerGroupHeartbeat, by which members join, stay and leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.classic.group import ClassicGroup, ClassicGroupState
from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.consumer.member import ConsumerMember, MemberState, is_subset
from kaa.coordinators.group.consumer.migration import (
    can_downgrade_without,
    downgrade,
    turn_away,
    upgrade,
)
from kaa.coordinators.group.consumer.records import CONSUMER_RECORDS, regex_tombstone
from kaa.coordinators.group.consumer.regex import (
    RegexChange,
    change_regex,
    regexes_to_resolve,
    resolve,
    resolved_records,
)
from kaa.coordinators.group.consumer.target import target_records
from kaa.coordinators.group.consumer.timers import ConsumerTimers
from kaa.coordinators.group.consumer.update import GroupSurroundings, Update
from kaa.coordinators.group.consumer.work import ConsumerWork
from kaa.coordinators.group.java_order import integer_hash, map_order, uuid_hash
from kaa.coordinators.group.modern.group import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from kaa.coordinators.group.modern.groups import ModernGroups
from kaa.coordinators.group.outcome import Outcome
from kaa.coordinators.group.settings import ConsumerTimes
from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.limits import GROUP_TOPICS_PER_PIECE
from kaa.model.pieces import finish, mapped
from kaa.wire.errors import Errors
from kaa.wire.messages.k68_consumer_group_heartbeat import (
    Assignment as HeartbeatAssignment,
)
from kaa.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kaa.coordinators.group.assignors.table import GroupAssignment
    from kaa.coordinators.group.classic.rebalance import Rebalances
    from kaa.coordinators.group.consumer.group import ResolvedRegex
    from kaa.coordinators.group.consumer.member import Owned
    from kaa.coordinators.group.consumer.reconcile import Reported
    from kaa.coordinators.group.consumer.target import Computation
    from kaa.coordinators.group.consumer.timers import WorkDue
    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.group.outcome import Client
    from kaa.coordinators.group.settings import GroupSettings
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.coordinators.machine import Moment, NewRecord
    from kaa.coordinators.timeline import Timeline, TimelineDict
    from kaa.coordinators.timers import Timers
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


class ConsumerGroups(ModernGroups[ConsumerGroup, ConsumerTimes]):
    """What consumer groups do. The groups themselves belong to the machine."""

    def __init__(
        self,
        groups: TimelineDict[str, Group],
        timeline: Timeline,
        timers: Timers[object],
        settings: Callable[[], GroupSettings],
        times: Callable[[str], ConsumerTimes],
        topics: GroupTopics,
        new_id: Callable[[], str],
        rebalances: Rebalances,
    ) -> None:
        super().__init__(ConsumerGroup, groups, timeline, settings, times, topics)
        self._rebalances = rebalances
        self.new_id = new_id
        self.timers = ConsumerTimers(timers)
        self.work = ConsumerWork(self.timers)

    # --- heartbeats

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, now: Moment
    ) -> CoordinatorResult | Pieces[CoordinatorResult]:
        """What follows from it: in pieces if it is about thousands of topics."""
        if request.member_epoch in {LEAVE_EPOCH, STATIC_LEAVE_EPOCH}:
            return self._leave(request, now)
        steps = self._heard(request, client, now)
        return steps if self._is_wide(request) else finish(steps)

    def _is_wide(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        group = self.known(request.group_id)
        named = max(
            len(request.subscribed_topic_names or ()),
            len(request.topic_partitions or ()),
            0 if group is None else len(group.target(request.member_id)),
        )
        return named > GROUP_TOPICS_PER_PIECE

    def _heard(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, now: Moment
    ) -> Pieces[CoordinatorResult]:
        outcome = Outcome()
        records = outcome.records
        group = self._group_of(request, now, outcome)
        self.check_size(group, request.member_id)
        reported = _reported(request)
        member = self._member_of(group, request, reported, records)
        updated = _updated(group, member, request, client)
        yield
        update = Update(group, member, updated, self.surroundings(group, now), records)
        names_changed = update.store_member()
        yield
        change = self.change_regex(update, now)
        has_changed = names_changed or change is not RegexChange.NONE
        yield
        update.bump_epoch(is_needed=names_changed or change is RegexChange.RESOLVED)
        yield
        target = yield from update.assign()
        self.compute_later(update, now)
        yield
        yield from update.reconcile(target, reported, has_subscription_changed=has_changed)
        yield
        updated = update.updated
        times = self.times(group.group_id)
        self.timers.expect_heartbeat(
            group.group_id, updated.member_id, times.session_timeout_ms, now
        )
        response = ConsumerGroupHeartbeatResponse(
            member_id=updated.member_id,
            member_epoch=updated.member_epoch,
            heartbeat_interval_ms=times.heartbeat_interval_ms,
        )
        is_changed = updated.assigned != member.assigned
        # A report of something else may have been sent before the member learned of it.
        has_reported = yield from _is_same(reported, updated.assigned)
        if self._gets_assignment(
            request, updated, now, is_changed=is_changed, has_reported=has_reported
        ):
            response.assignment = yield from _assignment(updated.assigned)
        before = self._groups.get(group.group_id)
        if isinstance(before, ClassicGroup):
            turn_away(before, outcome)
        return outcome.result(response)

    def _gets_assignment(
        self,
        request: ConsumerGroupHeartbeatRequest,
        member: ConsumerMember,
        now: Moment,
        *,
        is_changed: bool,
        has_reported: bool,
    ) -> bool:
        """Whether the answer says what the member has."""
        group_id, member_id = request.group_id, member.member_id
        if has_reported:
            self.timers.reported(group_id, member_id)
        interval_ms = self.times(group_id).heartbeat_interval_ms
        gets_assignment = (
            request.member_epoch == JOIN_EPOCH
            or _is_full(request)
            or is_changed
            or self.timers.is_report_missing(group_id, member_id, interval_ms, now)
        )
        if gets_assignment and not has_reported:
            self.timers.assignment_sent(group_id, member_id, now)
        return gets_assignment

    def surroundings(self, group: ConsumerGroup, now: Moment) -> GroupSurroundings:
        return GroupSurroundings(
            self.topics,
            self.timers,
            self.times(group.group_id),
            self.settings().consumer_assignors[0],
            self.work.is_under_way(group.group_id, "assignment"),
            now,
        )

    def _group_of(
        self, request: ConsumerGroupHeartbeatRequest, now: Moment, outcome: Outcome
    ) -> ConsumerGroup:
        """The group of a request; one that joins makes it if there is none, or of a classic one."""
        group_id = request.group_id
        if request.member_epoch != JOIN_EPOCH:
            return self.find(group_id)
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup) or group.is_in(ClassicGroupState.EMPTY):
            return self.take_over_or_new(group_id, outcome.records)
        made = upgrade(group, self.settings(), self.topics, outcome)
        for member in made.members.values():
            self._expect_heartbeat(made, member, now)
        return made

    def check_size(self, group: ConsumerGroup, member_id: str) -> None:
        if member_id not in group.members:
            self._check_room(group, self.settings().consumer_size_max)

    def _member_of(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        reported: Reported,
        records: list[NewRecord],
    ) -> ConsumerMember:
        """The member of a request; one that joins may be new, or take a static member's place."""
        is_joining = request.member_epoch == JOIN_EPOCH
        member_id = request.member_id or self.new_id()
        if request.instance_id is not None:
            known = group.static_member(request.instance_id)
            if is_joining and known is not None:
                if not known.uses_classic_protocol:
                    _check_released(known, member_id, request.instance_id)
                return replace_member(group, known, member_id, records)
            if not is_joining:
                member = check_instance(known, member_id, request.instance_id)
                _check_epoch(member, request.member_epoch, reported)
                return member
        if is_joining:
            return group.members.get(member_id) or ConsumerMember(member_id)
        member = group.member(member_id)
        _check_epoch(member, request.member_epoch, reported)
        return member

    def change_regex(self, update: Update, now: Moment) -> RegexChange:
        """Acts on another regular expression, and resolves those of the group if it is time."""
        group = update.group
        change, is_new = change_regex(group, update.member, update.updated, update.records)
        if not is_new and not any(
            member.subscribed_topic_regex for member in group.members.values()
        ):
            return change
        if not self.work.is_under_way(group.group_id, "regex"):
            interval_ms = self.settings().regex_refresh_interval_ms
            regexes = regexes_to_resolve(
                group, update.updated, self.topics, interval_ms, now, is_new=is_new
            )
            if regexes:
                steps = resolve(regexes, self.topics, now.wall_ms)

                def done(found: Mapping[str, ResolvedRegex], _: Moment) -> Pieces[list[NewRecord]]:
                    known = self.known(group.group_id)
                    if known is None:
                        return []
                    yield
                    return (yield from resolved_records(known, found, self.topics))

                self.work.start(group.group_id, "regex", steps, done, now)
        return change

    def compute_later(self, update: Update, now: Moment) -> None:
        """Computes an assignment in slices that was too big for its request."""
        found = update.to_compute
        if found is None or self.work.is_under_way(found.group_id, "assignment"):
            return

        def done(assignment: GroupAssignment, then: Moment) -> Pieces[list[NewRecord]]:
            return self._computed(found, assignment, then)

        self.work.start(found.group_id, "assignment", found.steps, done, now)

    def _computed(
        self, computed: Computation, assignment: GroupAssignment, now: Moment
    ) -> Pieces[list[NewRecord]]:
        """The group may have changed meanwhile: the assignment is for its own epoch."""
        group = self.known(computed.group_id)
        if (
            group is None
            or group.group_epoch != computed.epoch
            or set(computed.spec.members) != set(group.members)
        ):
            return []
        return (
            yield from target_records(group, computed.epoch, computed.spec, assignment, now.wall_ms)
        )

    # --- leaving

    def _leave(self, request: ConsumerGroupHeartbeatRequest, now: Moment) -> CoordinatorResult:
        group = self.find(request.group_id)
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            known = group.static_member(request.instance_id)
            member = check_instance(known, request.member_id, request.instance_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        if request.instance_id is not None and request.member_epoch == STATIC_LEAVE_EPOCH:
            left = member._replace(
                member_epoch=STATIC_LEAVE_EPOCH,
                pending_revocation={},
                # A member that comes back has them from the start.
                assigned={
                    topic_id: dict.fromkeys(numbers, 0)
                    for topic_id, numbers in member.assigned.items()
                },
            )
            return CoordinatorResult(
                [finish(CONSUMER_RECORDS.current_record(group.group_id, left))], response
            )
        return self.fence(group, [member], now, response)

    def fence(
        self,
        group: ConsumerGroup,
        members: Iterable[ConsumerMember],
        now: Moment,
        response: object = None,
    ) -> CoordinatorResult:
        gone = {member.member_id: member for member in members}
        if not gone:
            return CoordinatorResult(response=response)
        if can_downgrade_without(group, gone, self.settings()):
            outcome = Outcome()
            self.downgrade(group, gone, None, now, outcome, is_rebalance_needed=True)
            return outcome.result(response)
        group_id = group.group_id
        records: list[NewRecord] = []
        for member_id in gone:
            records += CONSUMER_RECORDS.remove_member(group_id, member_id)
        left = [member for member in group.members.values() if member.member_id not in gone]
        still_used = {member.subscribed_topic_regex for member in left}
        unused = {member.subscribed_topic_regex for member in gone.values()} - still_used
        records += [regex_tombstone(group_id, regex) for regex in sorted(filter(None, unused))]
        metadata_hash = self.topics.group_hash(group.subscribed_topics_of(left))
        records.append(
            CONSUMER_RECORDS.epoch_record(group_id, group.group_epoch + 1, metadata_hash)
        )
        for member_id in gone:
            self.timers.forget(group_id, member_id)
        return CoordinatorResult(records, response)

    def downgrade(
        self,
        group: ConsumerGroup,
        gone: Collection[str],
        joining: ConsumerMember | None,
        now: Moment,
        outcome: Outcome,
        *,
        is_rebalance_needed: bool,
    ) -> None:
        """Puts a classic group into the place of one that has only classic members left."""
        classic = downgrade(group, gone, joining, self.topics, now.wall_ms, outcome)
        self._groups[group.group_id] = classic
        for member in group.members.values():
            self.timers.forget(group.group_id, member.member_id)
        for classic_member in classic.members.values():
            self._rebalances.expect_heartbeat(classic, classic_member, now)
        if is_rebalance_needed:
            self._rebalances.prepare(classic, now, outcome)

    # --- what comes later

    def go_on(self, event: WorkDue, now: Moment) -> Pieces[CoordinatorResult]:
        return CoordinatorResult((yield from self.work.go_on(event, now)))

    def _expect_heartbeat(self, group: ConsumerGroup, member: ConsumerMember, now: Moment) -> None:
        timeout_ms = (
            self.times(group.group_id).session_timeout_ms
            if member.classic is None
            else member.classic.session_timeout_ms
        )
        self.timers.expect_heartbeat(group.group_id, member.member_id, timeout_ms, now)

    def loaded(self, group: ConsumerGroup, now: Moment) -> None:
        for member in group.members.values():
            self._expect_heartbeat(group, member, now)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self.timers.expect_revocation(group.group_id, member, now)


def _reported(request: ConsumerGroupHeartbeatRequest) -> Reported:
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: topic.partitions for topic in request.topic_partitions}


def _is_same(reported: Reported, assigned: Owned) -> Pieces[bool]:
    """Whether a member reports just what it has."""
    if reported is None or sum(map(bool, reported.values())) != len(assigned):
        return False
    for count, (topic_id, numbers) in enumerate(assigned.items(), 1):
        if count % GROUP_TOPICS_PER_PIECE == 0:
            yield
        if numbers.keys() != set(reported.get(topic_id, ())):
            return False
    return True


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member says all about itself, as after an error."""
    has_subscription = (
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    )
    return (
        request.rebalance_timeout_ms != -1
        and has_subscription
        and request.topic_partitions is not None
    )


def _updated(
    group: ConsumerGroup,
    member: ConsumerMember,
    request: ConsumerGroupHeartbeatRequest,
    client: Client,
) -> ConsumerMember:
    """The member with what the request says; what it leaves out stays."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=request.server_assignor or member.server_assignor,
        subscribed_topic_names=(
            member.subscribed_topic_names if names is None else group.shared_names(frozenset(names))
        ),
        subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
        client_id=client.client_id,
        client_host=client.client_host,
        classic=None,
    )


def _assignment(owned: Owned) -> Pieces[HeartbeatAssignment]:
    topics = yield from mapped(
        lambda topic_id: TopicPartitions(
            topic_id=topic_id, partitions=map_order(owned[topic_id], integer_hash)
        ),
        map_order(owned, uuid_hash),
    )
    return HeartbeatAssignment(topic_partitions=topics)


def _check_epoch(member: ConsumerMember, epoch: int, reported: Reported) -> None:
    """A member is at the epoch it was given, or at the one before if the answer was lost."""
    if epoch == member.member_epoch:
        return
    if (
        epoch < member.member_epoch
        and epoch == member.previous_member_epoch
        and is_subset(reported, member.assigned)
    ):
        return
    raise CoordinatorError(
        Errors.FENCED_MEMBER_EPOCH,
        f"The member is at epoch {member.member_epoch}, not {epoch}: it has to let go of its "
        "partitions and join again.",
    )


def _check_released(known: ConsumerMember, member_id: str, instance_id: str) -> None:
    if known.member_epoch != STATIC_LEAVE_EPOCH:
        raise CoordinatorError(
            Errors.UNRELEASED_INSTANCE_ID,
            f"Instance id {instance_id} is that of member {known.member_id}, which has not left; "
            f"{member_id} cannot have it.",
        )


def check_instance(
    known: ConsumerMember | None, member_id: str, instance_id: str
) -> ConsumerMember:
    """The static member, if it has not been replaced by another one."""
    if known is None:
        raise CoordinatorError(
            Errors.UNKNOWN_MEMBER_ID, f"No member has instance id {instance_id}."
        )
    if known.member_id != member_id:
        raise CoordinatorError(
            Errors.FENCED_INSTANCE_ID,
            f"Member {known.member_id} has taken the place of {member_id} with instance id "
            f"{instance_id}.",
        )
    return known


def replace_member(
    group: ConsumerGroup, known: ConsumerMember, member_id: str, records: list[NewRecord]
) -> ConsumerMember:
    """A static member comes back under another id, and has what it had."""
    group_id = group.group_id
    member = known._replace(member_id=member_id, member_epoch=0, previous_member_epoch=0)
    records += CONSUMER_RECORDS.remove_member(group_id, known.member_id)
    records += [
        CONSUMER_RECORDS.member_record(group_id, member),
        finish(CONSUMER_RECORDS.target_record(group_id, member_id, group.target(known.member_id))),
        finish(CONSUMER_RECORDS.current_record(group_id, member)),
    ]
    return member
