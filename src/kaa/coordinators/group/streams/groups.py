"""What streams groups do: members join, stay and leave.

The steps of a heartbeat are in `update`; here is what surrounds them: who may take part, deadlines,
the answer, and the internal topics that are to be made. The first assignment of a group waits for
more members (`streams.initial.rebalance.delay.ms`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kaa.coordinators.group.classic.group import ClassicGroup, ClassicGroupState
from kaa.coordinators.group.classic.records import group_tombstone
from kaa.coordinators.group.consumer.target import can_compute
from kaa.coordinators.group.java_order import map_order, string_hash
from kaa.coordinators.group.streams.endpoints import partitions_by_endpoint
from kaa.coordinators.group.streams.group import StreamsGroup
from kaa.coordinators.group.streams.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    MemberState,
    StreamsMember,
    Tasks,
    UserEndpoint,
    is_within,
    task_map,
)
from kaa.coordinators.group.streams.records import epoch_record, remove_member
from kaa.coordinators.group.streams.topology import Status
from kaa.coordinators.group.streams.update import Update, computed, stored_standby_count
from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.model.words import count_text
from kaa.wire.errors import Errors
from kaa.wire.messages.k88_streams_group_heartbeat import (
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.group.outcome import Client
    from kaa.coordinators.group.settings import GroupSettings, StreamsTimes
    from kaa.coordinators.group.streams.topology import ConfiguredTopology, InternalTopic
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.coordinators.machine import Moment, NewRecord
    from kaa.coordinators.timeline import Timeline, TimelineDict
    from kaa.coordinators.timers import Timers
    from kaa.wire.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest


@dataclass(frozen=True, slots=True)
class StreamsExpired:
    """A member has not been heard of for the time of its session."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class StreamsRebalanceExpired:
    """A member has not given up tasks in time."""

    group_id: str
    member_id: str
    member_epoch: int


@dataclass(frozen=True, slots=True)
class StreamsDelayEnded:
    """A new group has waited for members."""

    group_id: str


class StreamsHeartbeat(NamedTuple):
    """The answer to a heartbeat, and the internal topics that are to be made."""

    response: StreamsGroupHeartbeatResponse
    topics: Mapping[str, InternalTopic] = {}


class StreamsGroups:
    """The commands of streams groups: each gives records, an answer, and internal topics to create.
    The groups themselves belong to the machine.
    """

    def __init__(
        self,
        groups: TimelineDict[str, Group],
        timeline: Timeline,
        timers: Timers[object],
        settings: Callable[[], GroupSettings],
        times: Callable[[str], StreamsTimes],
        topics: GroupTopics,
    ) -> None:
        self._groups = groups
        self._timeline = timeline
        self._timers = timers
        self.settings = settings
        self.times = times
        self.topics = topics

    def find(self, group_id: str) -> StreamsGroup:
        """The streams group of this name; GROUP_ID_NOT_FOUND if there is none."""
        group = self._groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        what = f"There is no group {group_id}."
        if group is not None:
            what = f"Group {group_id} is a {group.kind} group."
        raise CoordinatorError(Errors.GROUP_ID_NOT_FOUND, what)

    def _find_or_new(self, group_id: str, records: list[NewRecord]) -> StreamsGroup:
        """The same, or a group that nobody knows yet; a classic one without members gives way."""
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup) and group.is_in(ClassicGroupState.EMPTY):
            records.append(group_tombstone(group_id))
            return StreamsGroup(group_id, self._timeline)
        if group is None:
            return StreamsGroup(group_id, self._timeline)
        return self.find(group_id)

    # --- heartbeats

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: Client, now: Moment
    ) -> CoordinatorResult:
        if request.member_epoch in {LEAVE_EPOCH, STATIC_LEAVE_EPOCH}:
            return self._leave(request)
        before: list[NewRecord] = []
        group_id, is_joining = request.group_id, request.member_epoch == JOIN_EPOCH
        group = self._find_or_new(group_id, before) if is_joining else self.find(group_id)
        member = self._member(group, request)
        times = self.times(group_id)
        updated = _updated(member, request, client)
        update = Update(group, member, updated, self.topics, times, now)
        update.records += before
        update.store_member()
        topology = update.store_topology(request.topology)
        configured = update.configure(topology)
        owned = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
        update.check_tasks(configured, *owned)
        update.bump_epoch(configured)
        self._delay_first_assignment(group, times, now)
        is_delayed = _delay(group_id) in self._timers
        epoch, target = update.assign(configured, is_delayed=is_delayed)
        if update.follow(epoch, target, _reported(request)):
            self._expect_revocation(group_id, update.updated, now)
        self._expect_heartbeat(group_id, request.member_id, now)
        if request.shutdown_application and group.shutdown_member_id is None:
            group.shutdown_member_id = request.member_id
        response = self._response(update, request, configured, times)
        return CoordinatorResult(update.records, StreamsHeartbeat(response, configured.missing))

    def _member(self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> StreamsMember:
        """The member as it is, or a new one."""
        if request.member_epoch != JOIN_EPOCH:
            member = group.member(request.member_id)
            _check_epoch(member, request)
            return member
        size_max = self.settings().streams_size_max
        if len(group.members) >= size_max:
            raise CoordinatorError(
                Errors.GROUP_MAX_SIZE_REACHED,
                f"Group {group.group_id} has {count_text(size_max, 'member')}, which is the limit.",
            )
        return group.members.get(request.member_id) or StreamsMember(request.member_id)

    def _response(
        self,
        update: Update,
        request: StreamsGroupHeartbeatRequest,
        configured: ConfiguredTopology,
        times: StreamsTimes,
    ) -> StreamsGroupHeartbeatResponse:
        group, updated = update.group, update.updated
        response = StreamsGroupHeartbeatResponse(
            member_id=updated.member_id,
            member_epoch=updated.member_epoch,
            heartbeat_interval_ms=times.heartbeat_interval_ms,
        )
        if request.member_epoch == JOIN_EPOCH or updated.assigned != update.member.assigned:
            response.active_tasks = _task_ids(updated.assigned.active)
            response.standby_tasks = _task_ids(updated.assigned.standby)
            response.warmup_tasks = _task_ids(updated.assigned.warmup)
            if updated.user_endpoint is not None:
                group.endpoint_epoch += 1
        if group.endpoint_epoch != request.endpoint_information_epoch:
            others = (one for one in group.members.values() if one.member_id != updated.member_id)
            response.partitions_by_user_endpoint = partitions_by_endpoint(
                (*others, updated), configured, self.topics
            )
        if group.group_id in self._groups:
            # A group that is new begins to count when it is stored.
            response.endpoint_information_epoch = group.endpoint_epoch
        if configured.problem is not None:
            update.tell(*configured.problem)
        if group.shutdown_member_id is not None:
            update.tell(
                Status.SHUTDOWN_APPLICATION,
                f"Streams group member {group.shutdown_member_id} encountered a fatal error and "
                "requested a shutdown for the entire application.",
            )
        response.status = update.statuses
        return response

    # --- the first assignment

    def _delay_first_assignment(
        self, group: StreamsGroup, times: StreamsTimes, now: Moment
    ) -> None:
        key, delay_ms = _delay(group.group_id), times.initial_rebalance_delay_ms
        if group.is_empty and delay_ms > 0 and key not in self._timers:
            event = StreamsDelayEnded(group.group_id)
            self._timers.schedule(key, now.monotonic_ms + delay_ms, event)

    def delay_ended(self, event: StreamsDelayEnded, now: Moment) -> CoordinatorResult:
        group = self._groups.get(event.group_id)
        if not isinstance(group, StreamsGroup) or group.is_empty or group.configured is None:
            # The next heartbeat assigns.
            return CoordinatorResult()
        epochs = group.epochs
        interval_ms = self.times(event.group_id).assignment_interval_ms
        is_due = can_compute(epochs.assignment_timestamp_ms, interval_ms, now.wall_ms)
        if epochs.group_epoch <= epochs.assignment_epoch or not is_due:
            return CoordinatorResult()
        records, _ = computed(
            group,
            dict(group.members.items()),
            group.configured,
            epochs.group_epoch,
            stored_standby_count(epochs.assignment_configs),
            now,
        )
        return CoordinatorResult(records)

    # --- leaving

    def _leave(self, request: StreamsGroupHeartbeatRequest) -> CoordinatorResult:
        group = self.find(request.group_id)
        if request.shutdown_application and group.shutdown_member_id is None:
            group.shutdown_member_id = request.member_id
        group.member(request.member_id)
        response = StreamsGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch, status=[]
        )
        return self._fence(group, request.member_id, StreamsHeartbeat(response))

    def _fence(
        self, group: StreamsGroup, member_id: str, response: object = None
    ) -> CoordinatorResult:
        """Takes a member out of its group, which gets another epoch."""
        epochs = group.epochs
        records = remove_member(group.group_id, member_id)
        records.append(
            epoch_record(
                group.group_id,
                epochs.group_epoch + 1,
                epochs.metadata_hash,
                epochs.validated_topology_epoch,
                epochs.assignment_configs,
            )
        )
        self._timers.cancel(_session(group.group_id, member_id))
        self._timers.cancel(_revocation(group.group_id, member_id))
        return CoordinatorResult(records, response)

    def expire(self, event: StreamsExpired | StreamsRebalanceExpired) -> CoordinatorResult:
        group = self._groups.get(event.group_id)
        if not isinstance(group, StreamsGroup):
            return CoordinatorResult()
        member = group.members.get(event.member_id)
        is_late = member is not None and (
            isinstance(event, StreamsExpired) or event.member_epoch == member.member_epoch
        )
        return self._fence(group, event.member_id) if is_late else CoordinatorResult()

    def _expect_heartbeat(self, group_id: str, member_id: str, now: Moment) -> None:
        deadline_ms = now.monotonic_ms + self.times(group_id).session_timeout_ms
        event = StreamsExpired(group_id, member_id)
        self._timers.schedule(_session(group_id, member_id), deadline_ms, event)

    def _expect_revocation(self, group_id: str, member: StreamsMember, now: Moment) -> None:
        key = _revocation(group_id, member.member_id)
        if member.state is not MemberState.UNREVOKED_TASKS:
            self._timers.cancel(key)
            return
        event = StreamsRebalanceExpired(group_id, member.member_id, member.member_epoch)
        self._timers.schedule(key, now.monotonic_ms + member.rebalance_timeout_ms, event)

    def loaded(self, group: StreamsGroup, now: Moment) -> None:
        """Gives the members of a loaded group their deadlines."""
        for member in group.members.values():
            self._expect_heartbeat(group.group_id, member.member_id, now)
            self._expect_revocation(group.group_id, member, now)


def _session(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "streams session", group_id, member_id


def _revocation(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "streams revocation", group_id, member_id


def _delay(group_id: str) -> tuple[str, str]:
    return "streams delay", group_id


def _check_epoch(member: StreamsMember, request: StreamsGroupHeartbeatRequest) -> None:
    """A member is at the epoch it was given, or at the one before if the answer was lost."""
    epoch, has = request.member_epoch, member.assigned
    is_lost_answer = (
        epoch == member.previous_member_epoch < member.member_epoch
        and is_within(request.active_tasks, has.active)
        and is_within(request.standby_tasks, has.standby)
        and is_within(request.warmup_tasks, has.warmup)
    )
    if epoch != member.member_epoch and not is_lost_answer:
        raise CoordinatorError(
            Errors.FENCED_MEMBER_EPOCH,
            f"The member is at epoch {member.member_epoch}, not {epoch}: it has to give up its "
            "tasks and join again.",
        )


def _updated(
    member: StreamsMember, request: StreamsGroupHeartbeatRequest, client: Client
) -> StreamsMember:
    """The member with what the request says; what it leaves out stays."""
    timeout_ms, endpoint = request.rebalance_timeout_ms, request.user_endpoint
    topology, tags = request.topology, request.client_tags
    return member._replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=member.topology_epoch if topology is None else topology.epoch,
        client_id=client.client_id,
        client_host=client.client_host,
        process_id=member.process_id if request.process_id is None else request.process_id,
        client_tags=(member.client_tags if tags is None else {one.key: one.value for one in tags}),
        user_endpoint=(
            member.user_endpoint if endpoint is None else UserEndpoint(endpoint.host, endpoint.port)
        ),
    )


def _reported(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """The tasks that the member says it has."""
    if (
        request.active_tasks is None
        or request.standby_tasks is None
        or request.warmup_tasks is None
    ):
        return None
    return Tasks(
        task_map(request.active_tasks),
        task_map(request.standby_tasks),
        task_map(request.warmup_tasks),
    )


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=name, partitions=sorted(tasks[name]))
        for name in map_order(tasks, string_hash)
    ]
