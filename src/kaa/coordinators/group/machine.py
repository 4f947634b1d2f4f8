"""The group coordinator of one partition of the offsets topic, as a machine.

Here are the commands that look at both groups and offsets, and the frame around the parts: replay,
deadlines, load and unload. `classic` has the classic protocol, `consumer` that of consumer groups
(KIP-848), `share` and `streams` those of the other kinds, `offsets` what was committed, and `kinds`
the table of records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kaa.coordinators.group.classic.group import ClassicGroup, ClassicGroupState
from kaa.coordinators.group.classic.groups import ClassicGroups
from kaa.coordinators.group.classic.records import group_tombstone, replay_classic
from kaa.coordinators.group.consumer.classic_members import ClassicMembers
from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.consumer.groups import ConsumerGroups
from kaa.coordinators.group.consumer.records import group_tombstones as consumer_tombstones
from kaa.coordinators.group.consumer.timers import WorkDue
from kaa.coordinators.group.kinds import modern_records
from kaa.coordinators.group.modern.timers import MemberLate
from kaa.coordinators.group.offsets.committed import Offsets, committed_offset
from kaa.coordinators.group.offsets.expiry import expired_offsets
from kaa.coordinators.group.outcome import Outcome
from kaa.coordinators.group.settings import ConsumerTimes, ShareTimes, StreamsTimes
from kaa.coordinators.group.share.group import ShareGroup
from kaa.coordinators.group.share.groups import ShareGroups
from kaa.coordinators.group.share.offsets import ShareOffsets
from kaa.coordinators.group.share.records import group_tombstones as share_tombstones
from kaa.coordinators.group.streams.group import StreamsGroup
from kaa.coordinators.group.streams.groups import StreamsDelayEnded, StreamsGroups
from kaa.coordinators.group.streams.records import group_tombstones as streams_tombstones
from kaa.coordinators.group.topics import GroupTopics
from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.coordinators.timeline import Timeline, TimelineDict
from kaa.coordinators.timers import Timers
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import mapped
from kaa.model.steady_date import SteadyDate
from kaa.wire.errors import Errors
from kaa.wire.messages.offsets_classic import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.group.modern.groups import ModernGroups
    from kaa.coordinators.group.offsets.committed import CommittedOffset
    from kaa.coordinators.group.outcome import Client
    from kaa.coordinators.group.settings import GroupSettings
    from kaa.coordinators.machine import Moment, NewRecord, Reply, Waiter
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k11_join_group import JoinGroupRequest
    from kaa.wire.messages.k12_heartbeat import HeartbeatRequest
    from kaa.wire.messages.k13_leave_group import LeaveGroupRequest
    from kaa.wire.messages.k14_sync_group import SyncGroupRequest
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import CoordinatorKey, CoordinatorValue


Shown = TypeVar("Shown")


@dataclass(frozen=True, slots=True)
class CleanupDue:
    """It is time to look for offsets and groups that have expired."""


class GroupMachine:
    """Decides for the groups and offsets of one shard. A command returns records with an answer;
    what is stored changes only when they are replayed.
    """

    def __init__(
        self,
        settings: Callable[[], GroupSettings],
        new_id: Callable[[], str],
        topics: GroupTopics | None = None,
        times: Callable[[str], ConsumerTimes] = lambda _: ConsumerTimes(),
        share_times: Callable[[str], ShareTimes] = lambda _: ShareTimes(),
        streams_times: Callable[[str], StreamsTimes] = lambda _: StreamsTimes(),
    ) -> None:
        topics = topics or GroupTopics()
        self.timeline = Timeline()
        self.timers: Timers[object] = Timers()
        self._steady_date = SteadyDate()
        self.settings = settings
        # Classic groups change in place: what of them is durable stands in their records, and the
        # rest is not brought back by anything. Consumer groups live on the timeline.
        self.groups: TimelineDict[str, Group] = TimelineDict(self.timeline)
        self.offsets = Offsets(self.timeline)
        self.classic = ClassicGroups(self.groups, self.timers, settings, new_id)
        self.consumer = ConsumerGroups(
            self.groups,
            self.timeline,
            self.timers,
            settings,
            times,
            topics,
            new_id,
            self.classic.rebalances,
        )
        self.share = ShareGroups(
            self.groups, self.timeline, self.timers, settings, share_times, topics
        )
        self.share_offsets = ShareOffsets(self.share)
        self.streams = StreamsGroups(
            self.groups, self.timeline, self.timers, settings, streams_times, topics
        )
        self.classic_members = ClassicMembers(self.consumer)
        self._modern: dict[str, ModernGroups[Any, Any]] = {
            ConsumerGroup.kind: self.consumer,
            ShareGroup.kind: self.share,
            StreamsGroup.kind: self.streams,
        }

    # --- replay

    def replay(
        self,
        offset: int,
        key: CoordinatorKey,
        value: CoordinatorValue | None,
        producer_id: int,
        producer_epoch: int,
    ) -> Pieces[None] | None:
        modern = modern_records(key)
        if modern is not None:
            return modern.replay(self.groups, self.timeline, key, value)
        if not replay_classic(self.groups, key, value):
            self._replay_offset(offset, key, value, producer_id)
        return None

    def _replay_offset(
        self,
        offset: int,
        key: CoordinatorKey,
        value: CoordinatorValue | None,
        producer_id: int,
    ) -> None:
        if isinstance(key, LegacyOffsetCommitKey):
            key = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
        if isinstance(value, LegacyOffsetCommitValue):
            value = OffsetCommitValue(
                offset=value.offset,
                metadata=value.metadata,
                commit_timestamp=value.commit_timestamp,
            )
        assert isinstance(key, OffsetCommitKey)
        assert value is None or isinstance(value, OffsetCommitValue)
        if value is None:
            self.offsets.remove(key)
        else:
            name = (key.topic, key.partition)
            self.put_offset(key.group, name, committed_offset(value, offset), producer_id)

    def put_offset(
        self, group_id: str, name: tuple[str, int], committed: CommittedOffset, producer_id: int
    ) -> None:
        """What the replay of the record of a commit does."""
        if group_id not in self.groups:
            # A simple group: it commits offsets, and has no members.
            self.groups[group_id] = ClassicGroup(group_id, committed.commit_timestamp_ms)
        self.offsets.put(group_id, name, committed, producer_id)

    def replay_end_transaction(self, producer_id: int, *, is_commit: bool) -> Iterable[None]:
        return self.offsets.replay_end_transaction(producer_id, is_commit=is_commit)

    # --- life

    def loaded(self, now: Moment) -> Pieces[CoordinatorResult]:
        outcome = Outcome()
        retention_ms = self.settings().offsets_retention_ms
        self._steady_date.at(now.wall_ms, now.monotonic_ms, retention_ms)
        for count, group in enumerate(tuple(self.groups.values()), 1):
            if count % RECORDS_PER_PIECE == 0:
                yield
            if isinstance(group, ClassicGroup):
                self.classic.loaded(group, now, outcome)
            else:
                self._modern[group.kind].loaded(group, now)
        self._schedule_cleanup(now)
        return outcome.result()

    def unloaded(self) -> Sequence[Reply]:
        groups = self.groups.values()
        return self.classic.unloaded(one for one in groups if isinstance(one, ClassicGroup))

    def appended(self, then: Any, error: Errors, now: Moment) -> CoordinatorResult:
        return self.classic.stored(then, error, now)

    def expire(self, now: Moment) -> CoordinatorResult | Pieces[CoordinatorResult] | None:
        event: Any = self.timers.take_due(now.monotonic_ms)
        if event is None:
            return None
        if isinstance(event, CleanupDue):
            return self._clean_up(now)
        if isinstance(event, MemberLate):
            return self._modern[event.kind].expire(event, now)
        if isinstance(event, StreamsDelayEnded):
            return self.streams.delay_ended(event, now)
        if isinstance(event, WorkDue):
            return self.consumer.go_on(event, now)
        return self.classic.expire(event, now)

    # --- the classic protocol, which members of a consumer group may speak too

    def join(
        self, request: JoinGroupRequest, client: Client, waiter: Waiter, now: Moment
    ) -> CoordinatorResult:
        group = self.groups.get(request.group_id)
        is_busy = isinstance(group, StreamsGroup) and not group.is_empty
        if isinstance(group, ShareGroup) or is_busy:
            raise CoordinatorError(Errors.INCONSISTENT_GROUP_PROTOCOL)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self.classic_members.join(group, request, client, waiter, now)
        return self.classic.join(request, client, waiter, now)

    def sync(self, request: SyncGroupRequest, waiter: Waiter, now: Moment) -> CoordinatorResult:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self.classic_members.sync(group, request, now)
        return self.classic.sync(request, waiter, now)

    def heartbeat(self, request: HeartbeatRequest, now: Moment) -> CoordinatorResult:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.classic_members.heartbeat(group, request, now)
        return self.classic.heartbeat(request, now)

    def leave(self, request: LeaveGroupRequest, now: Moment) -> CoordinatorResult:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.classic_members.leave(group, request, now)
        return self.classic.leave(request, now)

    # --- offsets

    def topics_deleted(
        self, topics: Iterable[str], topic_ids: Iterable[Uuid] = ()
    ) -> Pieces[CoordinatorResult]:
        records = yield from self.offsets.tombstones_of_topics(topics)
        records += yield from self.share.topics_deleted(frozenset(topic_ids))
        return CoordinatorResult(records, is_atomic=False)

    # --- groups

    def delete_groups(self, group_ids: Iterable[str]) -> Pieces[CoordinatorResult]:
        """The response is how it went with each of them."""
        records: list[NewRecord] = []
        errors: dict[str, Errors] = {}
        for count, group_id in enumerate(group_ids, 1):
            if count % RECORDS_PER_PIECE == 0:
                yield
            error = Errors.NONE
            group = self.groups.get(group_id)
            try:
                if group is None:
                    raise CoordinatorError(Errors.GROUP_ID_NOT_FOUND)
                group.validate_delete()
            except CoordinatorError as refusal:
                error = refusal.error
            else:
                assert group is not None
                records += self.offsets.tombstones(group_id)
                records += self._tombstones(group)
            errors[group_id] = error
        return CoordinatorResult(records, errors)

    def _tombstones(self, group: Group) -> list[NewRecord]:
        if isinstance(group, ConsumerGroup):
            return consumer_tombstones(group)
        if isinstance(group, ShareGroup):
            return share_tombstones(group)
        if isinstance(group, StreamsGroup):
            return streams_tombstones(group)
        return [group_tombstone(group.group_id)]

    def list_groups(
        self,
        states: Collection[str] | None,
        types: Collection[str] | None,
        show: Callable[[Group], Shown],
    ) -> Pieces[list[Shown]]:
        """What `show` makes of each in these states and of these types, which are in lower case;
        None for all. A group that comes meanwhile is left out, as is one that goes.
        """

        def shown(group_id: str) -> Shown | None:
            group = self.groups.committed(group_id)
            if group is None or (types is not None and group.kind not in types):
                return None
            if states is not None and group.shown_state.lower() not in states:
                return None
            return show(group)

        found = yield from mapped(shown, self.groups.committed_keys())
        return [one for one in found if one is not None]

    # --- expiry

    def _schedule_cleanup(self, now: Moment) -> None:
        interval_ms = self.settings().offsets_retention_check_interval_ms
        self.timers.schedule("cleanup", now.monotonic_ms + interval_ms, CleanupDue())

    def _clean_up(self, now: Moment) -> Pieces[CoordinatorResult]:
        self._schedule_cleanup(now)
        self.offsets.tidy()
        retention_ms = self.settings().offsets_retention_ms
        date_ms = self._steady_date.at(now.wall_ms, now.monotonic_ms, retention_ms)
        records: list[NewRecord] = []
        for count, group in enumerate(self.groups.values(), 1):
            if count % RECORDS_PER_PIECE == 0:
                yield
            if isinstance(group, ShareGroup):
                # It has no offsets here, and lives until it is deleted.
                continue
            expired, is_nothing_left = yield from expired_offsets(
                group, self.offsets, date_ms, retention_ms
            )
            if isinstance(group, ClassicGroup):
                is_empty = group.is_in(ClassicGroupState.EMPTY)
            else:
                is_empty = group.is_empty
            records += expired
            if is_nothing_left and is_empty:
                records += self._tombstones(group)
        return CoordinatorResult(records, is_atomic=False)
