"""The group coordinator of one partition of the offsets topic, as a machine.

Here are the commands that look at both groups and offsets, and the frame around the parts: replay,
deadlines, load and unload. `classic` has the classic protocol, `consumer` that of consumer groups
(KIP-848), `offsets` what was committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kaa.coordinators.group.classic import ClassicGroups
from kaa.coordinators.group.classic_group import GROUP_TYPE, ClassicGroup, ClassicGroupState
from kaa.coordinators.group.classic_records import group_of_record, group_tombstone
from kaa.coordinators.group.consumer import ConsumerGroups
from kaa.coordinators.group.consumer_classic import ClassicMembers
from kaa.coordinators.group.consumer_describe import (
    describe_consumer_groups,
    expired_offsets,
    group_tombstones,
)
from kaa.coordinators.group.consumer_group import (
    CONSUMER_GROUP_TYPE,
    ConsumerGroup,
    validate_partition_commit,
)
from kaa.coordinators.group.consumer_replay import CONSUMER_RECORD_TYPES, replay_consumer
from kaa.coordinators.group.consumer_timers import ConsumerExpired, WorkDue
from kaa.coordinators.group.offsets import (
    NO_TIMESTAMP,
    CommittedOffset,
    Offsets,
    offset_record,
    offset_tombstone,
)
from kaa.coordinators.group.outcome import Outcome
from kaa.coordinators.group.settings import ConsumerTimes
from kaa.coordinators.group.topics import GroupTopics
from kaa.coordinators.machine import CoordinatorError, Result
from kaa.coordinators.records import RecordType, RecordTypes
from kaa.coordinators.timeline import Timeline, TimelineDict
from kaa.coordinators.timers import Timers
from kaa.wire.errors import Errors
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kaa.wire.messages.k15_describe_groups import DescribedGroup, DescribedGroupMember
from kaa.wire.messages.k16_list_groups import ListedGroup
from kaa.wire.messages.k42_delete_groups import DeletableGroupResult
from kaa.wire.messages.k47_offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kaa.wire.messages.offsets_classic import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kaa.coordinators.group.consumer import Group
    from kaa.coordinators.group.outcome import Client
    from kaa.coordinators.group.settings import GroupSettings
    from kaa.coordinators.machine import Moment, NewRecord, Reply
    from kaa.wire.messages.k08_offset_commit import OffsetCommitRequest
    from kaa.wire.messages.k11_join_group import JoinGroupRequest
    from kaa.wire.messages.k12_heartbeat import HeartbeatRequest
    from kaa.wire.messages.k13_leave_group import LeaveGroupRequest
    from kaa.wire.messages.k14_sync_group import SyncGroupRequest
    from kaa.wire.messages.k47_offset_delete import OffsetDeleteRequest
    from kaa.wire.messages.k69_consumer_group_describe import (
        DescribedGroup as DescribedConsumerGroup,
    )
    from kaa.wire.schema import CoordinatorKey, CoordinatorValue

RECORD_TYPES: Final = RecordTypes(
    [
        RecordType(LegacyOffsetCommitKey, LegacyOffsetCommitValue),
        RecordType(OffsetCommitKey, OffsetCommitValue),
        RecordType(GroupMetadataKey, GroupMetadataValue),
        *CONSUMER_RECORD_TYPES,
    ]
)
_DEFAULT_RETENTION: Final = -1
# Versions from which a client is told that its group does not exist.
_GROUP_NOT_FOUND_VERSION: Final = 9
_DESCRIBE_NOT_FOUND_VERSION: Final = 6


@dataclass(frozen=True, slots=True)
class CleanupDue:
    """It is time to look for offsets and groups that have expired."""


class GroupMachine:
    """See the module's text."""

    def __init__(
        self,
        settings: Callable[[], GroupSettings],
        new_id: Callable[[], str],
        topics: GroupTopics | None = None,
        times: Callable[[str], ConsumerTimes] = lambda _: ConsumerTimes(),
    ) -> None:
        self.timeline = Timeline()
        self.timers: Timers[object] = Timers()
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
            topics or GroupTopics(),
            new_id,
            self.classic.rebalances,
        )
        self.classic_members = ClassicMembers(self.consumer)

    # --- replay

    def replay(
        self,
        offset: int,
        key: CoordinatorKey,
        value: CoordinatorValue | None,
        producer_id: int,
        producer_epoch: int,
    ) -> None:
        if isinstance(key, GroupMetadataKey):
            if isinstance(value, GroupMetadataValue):
                self.groups[key.group] = group_of_record(key.group, value)
            else:
                self.groups.pop(key.group)
            return
        if replay_consumer(self.groups, self.timeline, key, value):
            return
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
        if value is not None and key.group not in self.groups:
            # A simple group: it commits offsets, and has no members.
            self.groups[key.group] = ClassicGroup(key.group, value.commit_timestamp)
        self.offsets.replay(offset, key, value, producer_id)

    def replay_end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        self.offsets.replay_end_transaction(producer_id, is_commit=is_commit)

    # --- life

    def loaded(self, now: Moment) -> Result:
        outcome = Outcome()
        for group in tuple(self.groups.values()):
            if isinstance(group, ConsumerGroup):
                self.consumer.loaded(group, now)
            else:
                self.classic.loaded(group, now, outcome)
        self._schedule_cleanup(now)
        return outcome.result()

    def unloaded(self) -> Sequence[Reply]:
        groups = self.groups.values()
        return self.classic.unloaded(one for one in groups if isinstance(one, ClassicGroup))

    def appended(self, then: Any, error: Errors, now: Moment) -> Result:
        return self.classic.stored(then, error, now)

    @property
    def next_deadline_ms(self) -> int | None:
        return self.timers.next_deadline_ms

    def expire(self, now: Moment) -> Result | None:
        event: Any = self.timers.take_due(now.monotonic_ms)
        if event is None:
            return None
        if isinstance(event, CleanupDue):
            return self._clean_up(now)
        if isinstance(event, ConsumerExpired):
            return self.consumer.expire(event, now)
        if isinstance(event, WorkDue):
            return self.consumer.go_on(event, now)
        return self.classic.expire(event, now)

    # --- the classic protocol, which members of a consumer group may speak too

    def join(self, request: JoinGroupRequest, client: Client, waiter: Any, now: Moment) -> Result:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self.classic_members.join(group, request, client, waiter, now)
        return self.classic.join(request, client, waiter, now)

    def sync(self, request: SyncGroupRequest, waiter: Any, now: Moment) -> Result:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self.classic_members.sync(group, request, now)
        return self.classic.sync(request, waiter, now)

    def heartbeat(self, request: HeartbeatRequest, now: Moment) -> Result:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.classic_members.heartbeat(group, request, now)
        return self.classic.heartbeat(request, now)

    def leave(self, request: LeaveGroupRequest, now: Moment) -> Result:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.classic_members.leave(group, request, now)
        return self.classic.leave(request, now)

    # --- offsets

    def commit_offsets(self, request: OffsetCommitRequest, api_version: int, now: Moment) -> Result:
        """Stores offsets of partitions that exist."""
        generation_id = request.generation_id_or_member_epoch
        group = self.groups.get(request.group_id)
        # A member of a consumer group with an older epoch, which each partition is to allow.
        behind = None
        if isinstance(group, ConsumerGroup):
            behind = group.validate_offset_commit(
                request.member_id, request.group_instance_id, generation_id, api_version=api_version
            )
        elif group is None:
            if generation_id >= 0:
                is_told = api_version >= _GROUP_NOT_FOUND_VERSION
                raise CoordinatorError(
                    Errors.GROUP_ID_NOT_FOUND if is_told else Errors.ILLEGAL_GENERATION
                )
        else:
            group.validate_offset_commit(
                request.member_id, request.group_instance_id, generation_id
            )
            self._commit_is_heartbeat(group, request.member_id, now)
        retention_ms = request.retention_time_ms
        expire_ms = (
            NO_TIMESTAMP if retention_ms == _DEFAULT_RETENTION else now.wall_ms + retention_ms
        )
        metadata_max = self.settings().offset_metadata_bytes_max
        records: list[NewRecord] = []
        response = OffsetCommitResponse(topics=[])
        for topic in request.topics:
            answered = OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=[]
            )
            response.topics.append(answered)
            for partition in topic.partitions:
                metadata = partition.committed_metadata or ""
                error = Errors.NONE
                if behind is not None:
                    validate_partition_commit(
                        behind, generation_id, topic.topic_id, partition.partition_index
                    )
                if len(metadata.encode("utf-16-be")) // 2 > metadata_max:
                    error = Errors.OFFSET_METADATA_TOO_LARGE
                else:
                    committed = CommittedOffset(
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        metadata,
                        now.wall_ms,
                        expire_ms,
                        topic.topic_id,
                    )
                    records.append(
                        offset_record(
                            request.group_id, topic.name, partition.partition_index, committed
                        )
                    )
                answered.partitions.append(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                )
        return Result(records, response)

    def _commit_is_heartbeat(self, group: ClassicGroup, member_id: str, now: Moment) -> None:
        member = group.members.get(member_id)
        states = (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE)
        if member is not None and group.is_in(*states):
            self.classic.rebalances.expect_heartbeat(group, member, now)

    def delete_offsets(self, request: OffsetDeleteRequest) -> Result:
        group = self.groups.get(request.group_id)
        if group is None:
            raise CoordinatorError(Errors.GROUP_ID_NOT_FOUND)
        group.validate_offset_delete()
        offsets = self.offsets.of_group(request.group_id)
        pending = self.offsets.pending_of(request.group_id)
        records = []
        response = OffsetDeleteResponse(topics=[])
        for topic in request.topics:
            is_subscribed = group.is_subscribed_to(topic.name)
            error = Errors.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else Errors.NONE
            answered = OffsetDeleteResponseTopic(name=topic.name, partitions=[])
            response.topics.append(answered)
            for partition in topic.partitions:
                index = partition.partition_index
                answered.partitions.append(
                    OffsetDeleteResponsePartition(partition_index=index, error_code=error)
                )
                name = (topic.name, index)
                is_known = name in pending or (offsets is not None and name in offsets)
                if is_known and not is_subscribed:
                    records.append(offset_tombstone(request.group_id, topic.name, index))
        return Result(records, response)

    def topics_deleted(self, topics: Iterable[str]) -> Result:
        records = list(self.offsets.tombstones_of_topics(topics))
        return Result(records, is_atomic=False)

    # --- groups

    def delete_groups(self, group_ids: Iterable[str]) -> Result:
        records: list[NewRecord] = []
        results = []
        for group_id in group_ids:
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
            results.append(DeletableGroupResult(group_id=group_id, error_code=error))
        return Result(records, results)

    def _tombstones(self, group: Group) -> list[NewRecord]:
        if isinstance(group, ConsumerGroup):
            return group_tombstones(group)
        return [group_tombstone(group.group_id)]

    def describe_consumer_groups(self, group_ids: Iterable[str]) -> list[DescribedConsumerGroup]:
        topics = self.consumer.topics
        default_assignor = self.settings().consumer_assignors[0]
        return describe_consumer_groups(self.groups, group_ids, topics, default_assignor)

    def describe_groups(self, group_ids: Iterable[str], api_version: int) -> list[DescribedGroup]:
        return [self._describe(group_id, api_version) for group_id in group_ids]

    def _describe(self, group_id: str, api_version: int) -> DescribedGroup:
        group = self.groups.committed(group_id)
        if not isinstance(group, ClassicGroup):
            described = DescribedGroup(
                group_id=group_id, group_state=ClassicGroupState.DEAD.value, members=[]
            )
            if api_version >= _DESCRIBE_NOT_FOUND_VERSION:
                reason = "not found" if group is None else "is one of the consumer protocol"
                described.error_code = Errors.GROUP_ID_NOT_FOUND
                described.error_message = f"Group {group_id} {reason}."
            return described
        is_stable = group.is_in(ClassicGroupState.STABLE)
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=(group.protocol_name or "") if is_stable else "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
                    member_assignment=member.assignment,
                )
                for member in group.members.values()
            ],
        )

    def list_groups(
        self, states_filter: Iterable[str], types_filter: Iterable[str]
    ) -> list[ListedGroup]:
        states = {state.strip().lower() for state in states_filter}
        types = {kind.strip().lower() for kind in types_filter}
        listed = []
        for _, group in self.groups.committed_items():
            if isinstance(group, ConsumerGroup):
                kind, state = CONSUMER_GROUP_TYPE, group.committed_state.value
            else:
                kind, state = GROUP_TYPE, group.state.value
            if (not types or kind in types) and (not states or state.lower() in states):
                listed.append(
                    ListedGroup(
                        group_id=group.group_id,
                        protocol_type=group.protocol_type or "",
                        group_state=state,
                        group_type=kind,
                    )
                )
        return listed

    # --- expiry

    def _schedule_cleanup(self, now: Moment) -> None:
        interval_ms = self.settings().offsets_retention_check_interval_ms
        self.timers.schedule("cleanup", now.monotonic_ms + interval_ms, CleanupDue())

    def _clean_up(self, now: Moment) -> Result:
        self._schedule_cleanup(now)
        self.offsets.tidy()
        retention_ms = self.settings().offsets_retention_ms
        records: list[NewRecord] = []
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                expired, is_nothing_left = expired_offsets(
                    group, self.offsets, now.wall_ms, retention_ms
                )
                is_empty = group.is_empty
            else:
                expired, is_nothing_left = self.offsets.expired(group, now.wall_ms, retention_ms)
                is_empty = group.is_in(ClassicGroupState.EMPTY)
            records += expired
            if is_nothing_left and is_empty:
                records += self._tombstones(group)
        return Result(records, is_atomic=False)
