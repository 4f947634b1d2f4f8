"""What share groups do: members join, stay, leave, and partitions get share state.

One heartbeat is four steps, in records: the member, the group epoch, the target assignment, what
the member has. A topic that somebody subscribes to for the first time has no share state yet: the
heartbeat has an effect that names its partitions, and the driver asks the share coordinator for
them and comes back with `initialised` or `not_initialised`. The next heartbeat finds partitions
that can be assigned, and assigns them.

A group may have thousands of topics, so that all of this is done in pieces. The topics of the
cluster may change between two of them: what is looked up together is looked up in one piece, and
the version of the topics at the beginning is the one that counts as seen.
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
from kaa.coordinators.group.share.records import (
    SHARE_RECORDS,
    partitions_record,
)
from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.limits import GROUP_NAMES_PER_PIECE, GROUP_TOPICS_PER_PIECE
from kaa.model.pieces import mapped
from kaa.wire.errors import Errors
from kaa.wire.messages.k76_share_group_heartbeat import (
    Assignment as HeartbeatAssignment,
)
from kaa.wire.messages.k76_share_group_heartbeat import (
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sized

    from kaa.coordinators.group.assignors.table import Assignment
    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.group.outcome import Client
    from kaa.coordinators.group.settings import GroupSettings
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.coordinators.machine import Moment, NewRecord
    from kaa.coordinators.timeline import Timeline, TimelineDict
    from kaa.coordinators.timers import Timers
    from kaa.model.pieces import Pieces
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
    ) -> CoordinatorResult | Pieces[CoordinatorResult]:
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
        if is_settled and update.is_followed and request.subscribed_topic_names is None:
            return CoordinatorResult(update.records, self._heard(group_id, update.updated, now))
        return self._bring_up(request, update, now, is_changed=is_changed, is_settled=is_settled)

    def _bring_up(
        self,
        request: ShareGroupHeartbeatRequest,
        update: _Update,
        now: Moment,
        *,
        is_changed: bool,
        is_settled: bool,
    ) -> Pieces[CoordinatorResult]:
        """Finds out what is new for the member and its group."""
        group_id, topics_version = request.group_id, self.topics.version
        names: frozenset[str] = frozenset()
        to_initialise: Partitions = {}
        if not is_settled:
            names = yield from self._prepared(update.group.members_with(update.updated).values())
            is_pending = is_changed or (yield from update.is_assignment_pending(names))
            yield from _turn(names)
            update.bump_epoch(names, is_needed=is_pending)
            yield from _turn(names)
            yield from update.assign()
        yield from update.follow(is_subscription_changed=is_changed)
        yield from _turn(names)
        if not is_settled:
            to_initialise = yield from update.initialise(names)
        if update.is_settled:
            update.group.settle(topics_version)
        updated = update.updated
        response = self._heard(group_id, updated, now)
        if (
            request.member_epoch == JOIN_EPOCH
            or request.subscribed_topic_names is not None
            or updated.assigned != update.member.assigned
        ):
            response.assignment = yield from _shown(updated.assigned)
        effects = []
        if to_initialise:
            effects.append(InitialiseState(group_id, update.group_epoch, to_initialise))
        return CoordinatorResult(update.records, response, effects=effects)

    def _heard(
        self, group_id: str, member: ShareMember, now: Moment
    ) -> ShareGroupHeartbeatResponse:
        """The answer to a member that has its time to be heard of again."""
        times = self.times(group_id)
        self._timers.expect_heartbeat(group_id, member.member_id, times.session_timeout_ms, now)
        return ShareGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=times.heartbeat_interval_ms,
        )

    def _prepared(self, members: Iterable[ShareMember]) -> Pieces[frozenset[str]]:
        """The topics that any of the members subscribes to, ready for their hash."""
        names: set[str] = set()
        count = 0
        for member in members:
            names |= member.subscribed_topic_names
            count += len(member.subscribed_topic_names)
            if count >= GROUP_NAMES_PER_PIECE:
                count = 0
                yield
        found = frozenset(names)
        yield from _turn(found)
        if not self.topics.is_prepared(found):
            yield from self.topics.prepare(found)
        return found

    # --- leaving

    def fence(
        self,
        group: ShareGroup,
        members: Iterable[ShareMember],
        now: Moment,
        response: object = None,
    ) -> Pieces[CoordinatorResult]:
        group_id, gone = group.group_id, [member.member_id for member in members]
        left = [one for one in group.members.values() if one.member_id not in gone]
        names = yield from self._prepared(left)
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

    def has_state(self, group_id: str) -> bool:
        """Whether it is a share group that has had partitions."""
        group = self._groups.get(group_id)
        return isinstance(group, ShareGroup) and group.has_partitions

    def is_initialising(self, group_id: str, topic_id: Uuid, number: int) -> bool:
        """Whether a group waits for the state of a partition."""
        group = self.known(group_id)
        topic = None if group is None else group.partitions.initialising.get(topic_id)
        return topic is not None and number in topic.partitions

    def initialised(self, group_id: str, done: Partitions) -> Pieces[CoordinatorResult]:
        """Partitions have share state now, unless it is being deleted already."""
        self._not_under_way(group_id, done)
        group = self.known(group_id)
        if group is not None:
            deleting = group.partitions.deleting
            done = {key: numbers for key, numbers in done.items() if key not in deleting}
        if group is None or not done:
            return CoordinatorResult(response=Errors.NONE)
        known = group.partitions
        named = yield from _in_turn(
            {
                topic_id: InitialisedTopic(self.topics.name(topic_id) or "", numbers)
                for topic_id, numbers in done.items()
            }
        )
        initialising = yield from _in_turn(without(known.initialising, done))
        initialised = yield from _in_turn(merged(known.initialised, named))
        partitions = known._replace(initialising=initialising, initialised=initialised)
        record = yield from partitions_record(group_id, partitions)
        return CoordinatorResult([record], Errors.NONE)

    def not_initialised(self, group_id: str, failed: Partitions) -> Pieces[CoordinatorResult]:
        """Partitions got no share state: a later heartbeat tries again."""
        self._not_under_way(group_id, failed)
        group = self.known(group_id)
        if group is None or not group.partitions.initialising:
            return CoordinatorResult(response=Errors.NONE)
        known = group.partitions
        initialising = yield from _in_turn(without(known.initialising, failed))
        record = yield from partitions_record(group_id, known._replace(initialising=initialising))
        return CoordinatorResult([record], Errors.NONE)

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

    def topics_deleted(self, topic_ids: frozenset[Uuid]) -> Pieces[list[NewRecord]]:
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
                records.append((yield from partitions_record(group.group_id, left)))
                yield
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
    def is_followed(self) -> bool:
        """Whether the member has its target."""
        return self._target[0] == self.updated.member_epoch

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

    def is_assignment_pending(self, names: frozenset[str]) -> Pieces[bool]:
        """Whether partitions were initialised that nobody was assigned."""
        group = self.group
        if group.epochs.assignment_epoch < self.group_epoch or group.is_empty:
            return False
        assigned: dict[Uuid, set[int]] = {}
        count = 0
        for target in group.targets.values():
            for topic_id, numbers in target.items():
                assigned.setdefault(topic_id, set()).update(numbers)
                count += 1
                if count % GROUP_TOPICS_PER_PIECE == 0:
                    yield
        for count, (topic_id, topic) in enumerate(group.partitions.initialised.items(), 1):
            if topic.name in names and assigned.get(topic_id, set()) != topic.partitions:
                return True
            if count % GROUP_TOPICS_PER_PIECE == 0:
                yield
        return False

    def bump_epoch(self, names: frozenset[str], *, is_needed: bool) -> None:
        """Bumps the epoch if it is needed, or if topics of the group have changed."""
        group, topics = self.group, self._groups.topics
        if not is_needed and group.has_checked_topics(topics.version):
            return
        metadata_hash = topics.group_hash(names)
        if is_needed or metadata_hash != group.epochs.metadata_hash:
            self.group_epoch += 1
            self.records.append(
                SHARE_RECORDS.epoch_record(group.group_id, self.group_epoch, metadata_hash)
            )
        group.topics_checked = (topics.version, self.group_epoch)

    def assign(self) -> Pieces[None]:
        """Computes a new target if the group epoch is ahead."""
        group, topics = self.group, self._groups.topics
        epochs = group.epochs
        if epochs.assignment_epoch >= self.group_epoch:
            return
        interval_ms = self._groups.times(group.group_id).assignment_interval_ms
        if not can_compute(epochs.assignment_timestamp_ms, interval_ms, self._now.wall_ms):
            return
        # Most members subscribe to the same topics.
        ids: dict[frozenset[str], frozenset[Uuid]] = {}
        subscriptions = {}
        for member_id, member in group.members_with(self.updated).items():
            names = member.subscribed_topic_names
            if names not in ids:
                ids[names] = topics.topic_ids(names)
            subscriptions[member_id] = ids[names]
            yield from _turn(names)
        found = yield from assign_shared(
            subscriptions,
            {
                topic_id: topic.partitions
                for topic_id, topic in group.partitions.initialised.items()
            },
            dict(group.targets.items()),
            is_uniform=len(ids) == 1,
        )
        now_ms = self._now.wall_ms
        self.records += yield from SHARE_RECORDS.target_records(
            group, self.group_epoch, found, now_ms
        )
        self._target = (self.group_epoch, found[self.updated.member_id])

    def follow(self, *, is_subscription_changed: bool) -> Pieces[None]:
        """The member takes over its target; nobody has to give up anything first."""
        epoch, target = self._target
        if self.is_followed and not is_subscription_changed:
            return
        topic_ids = self._groups.topics.topic_ids(self.updated.subscribed_topic_names)
        assigned = {key: numbers for key, numbers in target.items() if key in topic_ids}
        followed = self.updated._replace(assigned=assigned)
        if epoch != self.updated.member_epoch:
            followed = followed._replace(
                member_epoch=epoch, previous_member_epoch=self.updated.member_epoch
            )
        if followed != self.updated:
            group_id = self.group.group_id
            self.records.append((yield from SHARE_RECORDS.current_record(group_id, followed)))
            self.updated = followed

    def initialise(self, names: frozenset[str]) -> Pieces[Partitions]:
        """The partitions that have no share state and are not about to get it."""
        group, topics = self.group, self._groups.topics
        known = group.partitions
        busy = yield from _in_turn(self._groups.busy_topics(group, self._now))
        done = yield from _in_turn(merged(known.initialised, busy))
        missing: dict[Uuid, InitialisedTopic] = {}
        for count, name in enumerate(sorted(names), 1):
            if count % GROUP_TOPICS_PER_PIECE == 0:
                yield
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
                (yield from _in_turn(merged(known.initialising, missing))),
                known.initialised,
                {key: name for key, name in known.deleting.items() if key not in missing},
            )
            self.records.append((yield from partitions_record(group.group_id, partitions)))
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


def _shown(
    assigned: Mapping[Uuid, frozenset[int]] | Assignment,
) -> Pieces[HeartbeatAssignment]:
    found = yield from mapped(
        lambda topic_id: TopicPartitions(
            topic_id=topic_id, partitions=map_order(assigned[topic_id], integer_hash)
        ),
        map_order(assigned, uuid_hash),
    )
    return HeartbeatAssignment(topic_partitions=found)


def _in_turn(topics: dict[Uuid, InitialisedTopic]) -> Pieces[dict[Uuid, InitialisedTopic]]:
    """What was made; if it is large, that was enough for a turn."""
    yield from _turn(topics)
    return topics


def _turn(done: Sized) -> Pieces[None]:
    """A turn for others, if something was done with thousands."""
    if len(done) >= GROUP_TOPICS_PER_PIECE:
        yield
