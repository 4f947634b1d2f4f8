"""What share groups do: members join, stay, leave, and partitions get share state.

One heartbeat is four steps, in records: the member, the group epoch, the target assignment, what
the member has. A topic that somebody subscribes to for the first time has no share state yet: the
heartbeat has an effect that names its partitions, and the driver asks the share coordinator for
them and comes back with `initialised` or `not_initialised`. The next heartbeat finds partitions
that can be assigned, and assigns them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.coordinators.group.assignors.simple import assign_shared
from kaa.coordinators.group.java_order import integer_hash, map_order, uuid_hash
from kaa.coordinators.group.modern.group import JOIN_EPOCH, LEAVE_EPOCH, can_compute
from kaa.coordinators.group.modern.groups import ModernGroups
from kaa.coordinators.group.modern.timers import MemberTimers
from kaa.coordinators.group.settings import ShareTimes
from kaa.coordinators.group.share.group import (
    InitialisedTopic,
    ShareGroup,
    ShareMember,
    StatePartitions,
    merged,
    without,
)
from kaa.coordinators.group.share.records import SHARE_RECORDS, partitions_record
from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.wire.errors import Errors
from kaa.wire.messages.k76_share_group_heartbeat import (
    Assignment as HeartbeatAssignment,
)
from kaa.wire.messages.k76_share_group_heartbeat import (
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaa.coordinators.group.assignors.table import Assignment
    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.group.outcome import Client
    from kaa.coordinators.group.settings import GroupSettings
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.coordinators.machine import Moment, NewRecord
    from kaa.coordinators.timeline import Timeline, TimelineDict
    from kaa.coordinators.timers import Timers
    from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
    from kaa.wire.primitives import Uuid

# Partitions by topic id.
Partitions = dict["Uuid", frozenset[int]]


class InitialiseState(NamedTuple):
    """Has the share coordinator begin the state of partitions, with a state epoch."""

    group_id: str
    state_epoch: int
    partitions: Partitions


class ShareGroups(ModernGroups[ShareGroup, ShareTimes]):
    """The commands of share groups: each gives records, an answer, and the partitions that need
    share state. The groups themselves belong to the machine.
    """

    def __init__(
        self,
        groups: TimelineDict[str, Group],
        timeline: Timeline,
        timers: Timers[object],
        settings: Callable[[], GroupSettings],
        times: Callable[[str], ShareTimes],
        topics: GroupTopics,
    ) -> None:
        super().__init__(ShareGroup, groups, timeline, settings, times, topics)
        self._timers = MemberTimers(ShareGroup.kind, timers)
        # Since when state of a group's topic is being initialised, as far as this leader knows.
        self._under_way: dict[tuple[str, Uuid], int] = {}

    # --- heartbeats

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client, now: Moment
    ) -> CoordinatorResult:
        group_id = request.group_id
        if request.member_epoch == LEAVE_EPOCH:
            group = self.find(group_id)
            member = group.member(request.member_id)
            response = ShareGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=request.member_epoch
            )
            return self.fence(group, [member], now, response)
        is_joining = request.member_epoch == JOIN_EPOCH
        group = self.find_or_new(group_id) if is_joining else self.find(group_id)
        if request.member_id not in group.members:
            self._check_room(group, self.settings().share_size_max)
        if is_joining:
            member = group.members.get(request.member_id) or ShareMember(request.member_id)
        else:
            member = group.member(request.member_id)
            _check_epoch(member, request.member_epoch)
        update = _Update(self, group, member, _updated(member, request, client), now)
        is_changed = update.store_member()
        # Most heartbeats find nothing to do, and must not look at every partition for that.
        is_settled = not is_changed and group.is_settled(self.topics.version)
        if not is_settled:
            update.bump_epoch(is_needed=is_changed or update.is_assignment_pending())
            update.assign()
        update.follow(is_subscription_changed=is_changed)
        to_initialise = {} if is_settled else update.initialise()
        if update.is_settled:
            group.settle(self.topics.version)
        times = self.times(group_id)
        self._timers.expect_heartbeat(group_id, request.member_id, times.session_timeout_ms, now)
        updated = update.updated
        response = ShareGroupHeartbeatResponse(
            member_id=updated.member_id,
            member_epoch=updated.member_epoch,
            heartbeat_interval_ms=times.heartbeat_interval_ms,
        )
        if (
            is_joining
            or request.subscribed_topic_names is not None
            or updated.assigned != member.assigned
        ):
            response.assignment = _shown(updated.assigned)
        effects = []
        if to_initialise:
            effects.append(InitialiseState(group_id, update.group_epoch, to_initialise))
        return CoordinatorResult(update.records, response, effects=effects)

    # --- leaving

    def fence(
        self,
        group: ShareGroup,
        members: Iterable[ShareMember],
        now: Moment,
        response: object = None,
    ) -> CoordinatorResult:
        group_id, gone = group.group_id, [member.member_id for member in members]
        left = [one for one in group.members.values() if one.member_id not in gone]
        names = {name for one in left for name in one.subscribed_topic_names}
        records: list[NewRecord] = []
        for member_id in gone:
            records += SHARE_RECORDS.remove_member(group_id, member_id)
            self._timers.forget(group_id, member_id)
        epoch, metadata_hash = group.epochs.group_epoch + 1, self.topics.group_hash(names)
        records.append(SHARE_RECORDS.epoch_record(group_id, epoch, metadata_hash))
        return CoordinatorResult(records, response)

    def loaded(self, group: ShareGroup, now: Moment) -> None:
        timeout_ms = self.times(group.group_id).session_timeout_ms
        for member_id in group.members:
            self._timers.expect_heartbeat(group.group_id, member_id, timeout_ms, now)

    # --- share state

    def initialised(self, group_id: str, done: Partitions) -> CoordinatorResult:
        """Partitions have share state now."""
        self._not_under_way(group_id, done)
        group = self.known(group_id)
        if group is None or not done:
            return CoordinatorResult(response=Errors.NONE)
        known = group.partitions
        named = {
            topic_id: InitialisedTopic(self.topics.name(topic_id) or "", numbers)
            for topic_id, numbers in done.items()
        }
        partitions = known._replace(
            initialising=without(known.initialising, done),
            initialised=merged(known.initialised, named),
        )
        return CoordinatorResult([partitions_record(group_id, partitions)], Errors.NONE)

    def not_initialised(self, group_id: str, failed: Partitions) -> CoordinatorResult:
        """Partitions got no share state: a later heartbeat tries again."""
        self._not_under_way(group_id, failed)
        group = self.known(group_id)
        if group is None or not group.partitions.initialising:
            return CoordinatorResult(response=Errors.NONE)
        known = group.partitions
        partitions = known._replace(initialising=without(known.initialising, failed))
        return CoordinatorResult([partitions_record(group_id, partitions)], Errors.NONE)

    def _not_under_way(self, group_id: str, topics: Partitions) -> None:
        for topic_id in topics:
            self._under_way.pop((group_id, topic_id), None)

    def busy_topics(self, group: ShareGroup, now: Moment) -> dict[Uuid, InitialisedTopic]:
        """Topics whose state is being initialised, unless that has taken too long."""
        earliest_ms = now.monotonic_ms - self.settings().share_initialise_retry_ms
        return {
            topic_id: topic
            for topic_id, topic in group.partitions.initialising.items()
            if self._under_way.get((group.group_id, topic_id), earliest_ms) > earliest_ms
        }

    def begin_initialising(self, group_id: str, topics: Iterable[Uuid], now: Moment) -> None:
        for topic_id in topics:
            self._under_way[group_id, topic_id] = now.monotonic_ms

    def topics_deleted(self, topic_ids: frozenset[Uuid]) -> list[NewRecord]:
        """Records that forget the share state of topics that are gone."""
        records = []
        for group in self._groups.values():
            if not isinstance(group, ShareGroup):
                continue
            known = group.partitions
            gone = topic_ids & (
                known.initialising.keys() | known.initialised.keys() | known.deleting.keys()
            )
            if gone:
                left = StatePartitions(
                    {key: one for key, one in known.initialising.items() if key not in gone},
                    {key: one for key, one in known.initialised.items() if key not in gone},
                    {key: one for key, one in known.deleting.items() if key not in gone},
                )
                records.append(partitions_record(group.group_id, left))
        return records


class _Update:
    """One heartbeat of one member: `member` as it was, `updated` as it becomes."""

    def __init__(
        self,
        groups: ShareGroups,
        group: ShareGroup,
        member: ShareMember,
        updated: ShareMember,
        now: Moment,
    ) -> None:
        self._groups = groups
        self._now = now
        self.group = group
        self.member = member
        self.updated = updated
        self.records: list[NewRecord] = []
        self.group_epoch = group.epochs.group_epoch
        self._target = (group.epochs.assignment_epoch, group.targets.get(member.member_id) or {})

    @property
    def _names(self) -> set[str]:
        members = self.group.members_with(self.updated).values()
        return {name for member in members for name in member.subscribed_topic_names}

    @property
    def is_settled(self) -> bool:
        """Whether the group has nothing left to be initialised or assigned."""
        group = self.group
        epochs, known = group.epochs, group.partitions
        return (
            not self.records
            and not known.initialising
            and epochs.assignment_epoch >= epochs.group_epoch
        )

    def store_member(self) -> bool:
        """Whether the names of topics have changed."""
        if self.updated == self.member and self.member.member_id in self.group.members:
            return False
        self.records.append(SHARE_RECORDS.member_record(self.group.group_id, self.updated))
        return self.updated.subscribed_topic_names != self.member.subscribed_topic_names

    def is_assignment_pending(self) -> bool:
        """Whether partitions were initialised that nobody was assigned."""
        group = self.group
        if group.epochs.assignment_epoch < self.group_epoch or group.is_empty:
            return False
        assigned: dict[Uuid, set[int]] = {}
        for target in group.targets.values():
            for topic_id, numbers in target.items():
                assigned.setdefault(topic_id, set()).update(numbers)
        names = {name for one in group.members.values() for name in one.subscribed_topic_names}
        return any(
            topic.name in names and frozenset(assigned.get(topic_id, ())) != topic.partitions
            for topic_id, topic in group.partitions.initialised.items()
        )

    def bump_epoch(self, *, is_needed: bool) -> None:
        """Bumps the epoch if it is needed, or if topics of the group have changed."""
        group, topics = self.group, self._groups.topics
        if not is_needed and group.has_checked_topics(topics.version):
            return
        metadata_hash = topics.group_hash(self._names)
        if is_needed or metadata_hash != group.epochs.metadata_hash:
            self.group_epoch += 1
            self.records.append(
                SHARE_RECORDS.epoch_record(group.group_id, self.group_epoch, metadata_hash)
            )
        group.topics_checked = (topics.version, self.group_epoch)

    def assign(self) -> None:
        """Computes a new target if the group epoch is ahead."""
        group, topics = self.group, self._groups.topics
        epochs = group.epochs
        if epochs.assignment_epoch >= self.group_epoch:
            return
        interval_ms = self._groups.times(group.group_id).assignment_interval_ms
        if not can_compute(epochs.assignment_timestamp_ms, interval_ms, self._now.wall_ms):
            return
        members = group.members_with(self.updated)
        found = assign_shared(
            {
                member_id: topics.topic_ids(member.subscribed_topic_names)
                for member_id, member in members.items()
            },
            {
                topic_id: topic.partitions
                for topic_id, topic in group.partitions.initialised.items()
            },
        )
        self.records += SHARE_RECORDS.target_records(
            group, self.group_epoch, found, self._now.wall_ms
        )
        self._target = (self.group_epoch, found[self.updated.member_id])

    def follow(self, *, is_subscription_changed: bool) -> None:
        """The member takes over its target; nobody has to give up anything first."""
        epoch, target = self._target
        if epoch == self.updated.member_epoch and not is_subscription_changed:
            return
        topic_ids = self._groups.topics.topic_ids(self.updated.subscribed_topic_names)
        assigned = {key: numbers for key, numbers in target.items() if key in topic_ids}
        followed = self.updated._replace(assigned=assigned)
        if epoch != self.updated.member_epoch:
            followed = followed._replace(
                member_epoch=epoch, previous_member_epoch=self.updated.member_epoch
            )
        if followed != self.updated:
            self.records.append(SHARE_RECORDS.current_record(self.group.group_id, followed))
            self.updated = followed

    def initialise(self) -> Partitions:
        """The partitions that have no share state and are not about to get it."""
        group, topics = self.group, self._groups.topics
        known = group.partitions
        done = merged(known.initialised, self._groups.busy_topics(group, self._now))
        missing: dict[Uuid, InitialisedTopic] = {}
        for name in sorted(self._names):
            topic_id = topics.topic_id(name)
            if topic_id is None:
                continue
            numbers = frozenset(range(topics.partition_count(topic_id)))
            if topic_id in done:
                numbers -= done[topic_id].partitions
            if numbers:
                missing[topic_id] = InitialisedTopic(name, numbers)
        if missing:
            partitions = StatePartitions(
                merged(known.initialising, missing),
                known.initialised,
                {key: name for key, name in known.deleting.items() if key not in missing},
            )
            self.records.append(partitions_record(group.group_id, partitions))
            self._groups.begin_initialising(group.group_id, missing, self._now)
        return {topic_id: topic.partitions for topic_id, topic in missing.items()}


def _updated(
    member: ShareMember, request: ShareGroupHeartbeatRequest, client: Client
) -> ShareMember:
    """The member with what the request says; what it leaves out stays."""
    names = request.subscribed_topic_names
    return member._replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        subscribed_topic_names=(
            member.subscribed_topic_names if names is None else frozenset(names)
        ),
        client_id=client.client_id,
        client_host=client.client_host,
    )


def _check_epoch(member: ShareMember, epoch: int) -> None:
    """A member is at the epoch it was given, or at the one before if the answer was lost."""
    if epoch not in (member.member_epoch, member.previous_member_epoch):
        raise CoordinatorError(
            Errors.FENCED_MEMBER_EPOCH,
            f"The member is at epoch {member.member_epoch}, not {epoch}: it has to join again.",
        )


def _shown(assigned: Mapping[Uuid, frozenset[int]] | Assignment) -> HeartbeatAssignment:
    return HeartbeatAssignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic_id, partitions=map_order(assigned[topic_id], integer_hash)
            )
            for topic_id in map_order(assigned, uuid_hash)
        ]
    )
