"""What share groups do: members join, stay, leave, and partitions get share state.

One heartbeat is four steps, in records: the member, the group epoch, the target assignment, what
the member has. A topic that somebody subscribes to for the first time has no share state yet: the
heartbeat has an effect that names its partitions, and the driver asks the share coordinator for
them and comes back with `initialised` or `not_initialised`. The next heartbeat finds partitions
that can be assigned, and assigns them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kaa.coordinators.group.assignors.simple import assign_shared
from kaa.coordinators.group.consumer.target import can_compute
from kaa.coordinators.group.java_order import integer_hash, map_order, uuid_hash
from kaa.coordinators.group.share.group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    InitialisedTopic,
    ShareGroup,
    ShareMember,
    StatePartitions,
    merged,
    without,
)
from kaa.coordinators.group.share.records import (
    current_record,
    epoch_record,
    member_record,
    partitions_record,
    remove_member,
    target_epoch_record,
    target_record,
)
from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.model.words import count_text
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
    from kaa.coordinators.group.settings import GroupSettings, ShareTimes
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.coordinators.machine import Moment, NewRecord
    from kaa.coordinators.timeline import Timeline, TimelineDict
    from kaa.coordinators.timers import Timers
    from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
    from kaa.wire.primitives import Uuid

# Partitions by topic id.
Partitions = dict["Uuid", frozenset[int]]


@dataclass(frozen=True, slots=True)
class ShareExpired:
    """A member has not been heard of for the time of its session."""

    group_id: str
    member_id: str


class InitialiseState(NamedTuple):
    """Has the share coordinator begin the state of partitions, with a state epoch."""

    group_id: str
    state_epoch: int
    partitions: Partitions


class ShareGroups:
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
        self._groups = groups
        self._timeline = timeline
        self._timers = timers
        self.settings = settings
        self.times = times
        self.topics = topics
        # Since when state of a group's topic is being initialised, as far as this leader knows.
        self._under_way: dict[tuple[str, Uuid], int] = {}

    def find(self, group_id: str) -> ShareGroup:
        """The share group of this name; GROUP_ID_NOT_FOUND if there is none."""
        group = self._groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        what = f"There is no group {group_id}."
        if group is not None:
            what = f"Group {group_id} is a {group.kind} group."
        raise CoordinatorError(Errors.GROUP_ID_NOT_FOUND, what)

    def find_or_new(self, group_id: str) -> ShareGroup:
        """The same, or a group that nobody knows yet."""
        if group_id not in self._groups:
            return ShareGroup(group_id, self._timeline)
        return self.find(group_id)

    # --- heartbeats

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client, now: Moment
    ) -> CoordinatorResult:
        group_id = request.group_id
        if request.member_epoch == LEAVE_EPOCH:
            group = self.find(group_id)
            group.member(request.member_id)
            response = ShareGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=request.member_epoch
            )
            return self.fence(group, request.member_id, response)
        is_joining = request.member_epoch == JOIN_EPOCH
        group = self.find_or_new(group_id) if is_joining else self.find(group_id)
        self._check_size(group, request.member_id)
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
        self._expect_heartbeat(group_id, request.member_id, now)
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

    def _check_size(self, group: ShareGroup, member_id: str) -> None:
        size_max = self.settings().share_size_max
        if len(group.members) >= size_max and member_id not in group.members:
            raise CoordinatorError(
                Errors.GROUP_MAX_SIZE_REACHED,
                f"Group {group.group_id} has {count_text(size_max, 'member')}, which is the limit.",
            )

    # --- leaving

    def fence(
        self, group: ShareGroup, member_id: str, response: object = None
    ) -> CoordinatorResult:
        """Takes a member out of its group, which gets another epoch."""
        left = [one for one in group.members.values() if one.member_id != member_id]
        names = {name for one in left for name in one.subscribed_topic_names}
        records = remove_member(group.group_id, member_id)
        epoch = group.epochs.group_epoch + 1
        records.append(epoch_record(group.group_id, epoch, self.topics.group_hash(names)))
        self._timers.cancel(_session(group.group_id, member_id))
        return CoordinatorResult(records, response)

    def expire(self, event: ShareExpired) -> CoordinatorResult:
        group = self._groups.get(event.group_id)
        if not isinstance(group, ShareGroup) or event.member_id not in group.members:
            return CoordinatorResult()
        return self.fence(group, event.member_id)

    def _expect_heartbeat(self, group_id: str, member_id: str, now: Moment) -> None:
        deadline_ms = now.monotonic_ms + self.times(group_id).session_timeout_ms
        event = ShareExpired(group_id, member_id)
        self._timers.schedule(_session(group_id, member_id), deadline_ms, event)

    def loaded(self, group: ShareGroup, now: Moment) -> None:
        """Gives the members of a loaded group their sessions."""
        for member_id in group.members:
            self._expect_heartbeat(group.group_id, member_id, now)

    # --- share state

    def initialised(self, group_id: str, done: Partitions) -> CoordinatorResult:
        """Partitions have share state now."""
        self._not_under_way(group_id, done)
        group = self._groups.get(group_id)
        if not isinstance(group, ShareGroup) or not done:
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
        group = self._groups.get(group_id)
        if not isinstance(group, ShareGroup) or not group.partitions.initialising:
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
        self.records.append(member_record(self.group.group_id, self.updated))
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
        version, checked_epoch = group.topics_checked
        is_checked = version == topics.version and group.epochs.group_epoch >= checked_epoch
        if not is_needed and is_checked:
            return
        metadata_hash = topics.group_hash(self._names)
        if is_needed or metadata_hash != group.epochs.metadata_hash:
            self.group_epoch += 1
            self.records.append(epoch_record(group.group_id, self.group_epoch, metadata_hash))
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
        group_id = group.group_id
        self.records += [
            target_record(group_id, member_id, target)
            for member_id, target in found.items()
            if target != group.targets.get(member_id)
        ]
        now_ms = self._now.wall_ms
        self.records.append(target_epoch_record(group_id, self.group_epoch, now_ms))
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
            self.records.append(current_record(self.group.group_id, followed))
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


def _session(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "share session", group_id, member_id


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
