"""What streams groups do: members join, stay and leave.

The steps of a heartbeat are in `update`; here is what surrounds them: who may take part, deadlines,
the answer, and the internal topics that are to be made. The first assignment of a group waits for
more members (`streams.initial.rebalance.delay.ms`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kaa.coordinators.group.java_order import map_order, string_hash
from kaa.coordinators.group.modern.group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    can_compute,
)
from kaa.coordinators.group.modern.groups import ModernGroups
from kaa.coordinators.group.modern.timers import MemberTimers
from kaa.coordinators.group.settings import StreamsTimes
from kaa.coordinators.group.streams.endpoints import partitions_by_endpoint
from kaa.coordinators.group.streams.group import StreamsGroup
from kaa.coordinators.group.streams.member import (
    MemberState,
    StreamsMember,
    Tasks,
    UserEndpoint,
    is_within,
    task_map,
)
from kaa.coordinators.group.streams.records import STREAMS_RECORDS, epoch_record
from kaa.coordinators.group.streams.topology import Status, is_larger
from kaa.coordinators.group.streams.update import Update, computed, stored_standby_count
from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.limits import GROUP_TOPICS_PER_PIECE, STREAMS_TASKS_PER_PIECE
from kaa.model.pieces import finish, mapped
from kaa.wire.errors import Errors
from kaa.wire.messages.k88_streams_group_heartbeat import (
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.group.outcome import Client
    from kaa.coordinators.group.settings import GroupSettings
    from kaa.coordinators.group.streams.topology import ConfiguredTopology, InternalTopic
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.coordinators.machine import Moment, NewRecord
    from kaa.coordinators.timeline import Timeline, TimelineDict
    from kaa.coordinators.timers import Timers
    from kaa.model.pieces import Pieces
    from kaa.wire.messages import k88_streams_group_heartbeat as k88
    from kaa.wire.messages import offsets_streams as stored
    from kaa.wire.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest


@dataclass(frozen=True, slots=True)
class StreamsDelayEnded:
    """A new group has waited for members."""

    group_id: str


class StreamsHeartbeat(NamedTuple):
    """The answer to a heartbeat, and the internal topics that are to be made."""

    response: StreamsGroupHeartbeatResponse
    topics: Mapping[str, InternalTopic] = {}


class StreamsGroups(ModernGroups[StreamsGroup, StreamsTimes]):
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
        super().__init__(StreamsGroup, groups, timeline, settings, times, topics)
        self._timers = timers
        self._members = MemberTimers(StreamsGroup.kind, timers)

    # --- heartbeats

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: Client, now: Moment
    ) -> CoordinatorResult | Pieces[CoordinatorResult]:
        """What follows from it: in pieces if the application has thousands of tasks."""
        if request.member_epoch in {LEAVE_EPOCH, STATIC_LEAVE_EPOCH}:
            return self._leave(request, now)
        steps = self._heard(request, client, now)
        return steps if self._is_wide(request) else finish(steps)

    def _is_wide(self, request: StreamsGroupHeartbeatRequest) -> bool:
        group = self.known(request.group_id)
        subtopologies: Collection[k88.Subtopology | stored.Subtopology] = ()
        if request.topology is not None:
            subtopologies = request.topology.subtopologies
        elif group is not None and group.topology is not None:
            subtopologies = group.topology.subtopologies.values()
        if is_larger(subtopologies, GROUP_TOPICS_PER_PIECE):
            return True
        names = (name for one in subtopologies for name in one.source_topics)
        ids = (self.topics.topic_id(name) for name in names)
        counts = (self.topics.partition_count(one) for one in ids if one is not None)
        return sum(counts) > STREAMS_TASKS_PER_PIECE

    def _heard(
        self, request: StreamsGroupHeartbeatRequest, client: Client, now: Moment
    ) -> Pieces[CoordinatorResult]:
        before: list[NewRecord] = []
        group_id, is_joining = request.group_id, request.member_epoch == JOIN_EPOCH
        group = self.take_over_or_new(group_id, before) if is_joining else self.find(group_id)
        member = self._member(group, request)
        times = self.times(group_id)
        updated = _updated(member, request, client)
        update = Update(group, member, updated, self.topics, times, now)
        update.records += before
        update.store_member()
        topology = yield from update.store_topology(request.topology)
        yield
        configured = yield from update.configure(topology)
        yield
        owned = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
        update.check_tasks(configured, *owned)
        update.bump_epoch(configured)
        self._delay_first_assignment(group, times, now)
        is_delayed = _delay(group_id) in self._timers
        yield
        epoch, target = yield from update.assign(configured, is_delayed=is_delayed)
        yield
        reported = yield from _reported(request)
        if (yield from update.follow(epoch, target, reported)):
            self._expect_revocation(group_id, update.updated, now)
        self._members.expect_heartbeat(group_id, request.member_id, times.session_timeout_ms, now)
        if request.shutdown_application and group.shutdown_member_id is None:
            group.shutdown_member_id = request.member_id
        yield
        response = yield from self._response(update, request, configured, times)
        return CoordinatorResult(update.records, StreamsHeartbeat(response, configured.missing))

    def _member(self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> StreamsMember:
        """The member as it is, or a new one."""
        if request.member_epoch != JOIN_EPOCH:
            member = group.member(request.member_id)
            _check_epoch(member, request)
            return member
        self._check_room(group, self.settings().streams_size_max)
        return group.members.get(request.member_id) or StreamsMember(request.member_id)

    def _response(
        self,
        update: Update,
        request: StreamsGroupHeartbeatRequest,
        configured: ConfiguredTopology,
        times: StreamsTimes,
    ) -> Pieces[StreamsGroupHeartbeatResponse]:
        group, updated = update.group, update.updated
        response = StreamsGroupHeartbeatResponse(
            member_id=updated.member_id,
            member_epoch=updated.member_epoch,
            heartbeat_interval_ms=times.heartbeat_interval_ms,
        )
        if request.member_epoch == JOIN_EPOCH or updated.assigned != update.member.assigned:
            response.active_tasks = yield from _task_ids(updated.assigned.active)
            response.standby_tasks = yield from _task_ids(updated.assigned.standby)
            response.warmup_tasks = yield from _task_ids(updated.assigned.warmup)
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

    def delay_ended(self, event: StreamsDelayEnded, now: Moment) -> Pieces[CoordinatorResult]:
        group = self.known(event.group_id)
        if group is None or group.is_empty or group.configured is None:
            # The next heartbeat assigns.
            return CoordinatorResult()
        epochs = group.epochs
        interval_ms = self.times(event.group_id).assignment_interval_ms
        is_due = can_compute(epochs.assignment_timestamp_ms, interval_ms, now.wall_ms)
        if epochs.group_epoch <= epochs.assignment_epoch or not is_due:
            return CoordinatorResult()
        records, _ = yield from computed(
            group,
            dict(group.members.items()),
            group.configured,
            epochs.group_epoch,
            stored_standby_count(epochs.assignment_configs),
            now,
        )
        return CoordinatorResult(records)

    # --- leaving

    def _leave(self, request: StreamsGroupHeartbeatRequest, now: Moment) -> CoordinatorResult:
        group = self.find(request.group_id)
        if request.shutdown_application and group.shutdown_member_id is None:
            group.shutdown_member_id = request.member_id
        member = group.member(request.member_id)
        response = StreamsGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch, status=[]
        )
        return self.fence(group, [member], now, StreamsHeartbeat(response))

    def fence(
        self,
        group: StreamsGroup,
        members: Iterable[StreamsMember],
        now: Moment,
        response: object = None,
    ) -> CoordinatorResult:
        group_id, epochs = group.group_id, group.epochs
        records: list[NewRecord] = []
        for member in members:
            records += STREAMS_RECORDS.remove_member(group_id, member.member_id)
            self._members.forget(group_id, member.member_id)
        records.append(
            epoch_record(
                group_id,
                epochs.group_epoch + 1,
                epochs.metadata_hash,
                epochs.validated_topology_epoch,
                epochs.assignment_configs,
            )
        )
        return CoordinatorResult(records, response)

    def _expect_revocation(self, group_id: str, member: StreamsMember, now: Moment) -> None:
        if member.state is MemberState.UNREVOKED_TASKS:
            self._members.expect_revocation(group_id, member, now)
        else:
            self._members.forget_revocation(group_id, member.member_id)

    def loaded(self, group: StreamsGroup, now: Moment) -> None:
        timeout_ms = self.times(group.group_id).session_timeout_ms
        for member in group.members.values():
            self._members.expect_heartbeat(group.group_id, member.member_id, timeout_ms, now)
            self._expect_revocation(group.group_id, member, now)


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


def _reported(request: StreamsGroupHeartbeatRequest) -> Pieces[Tasks | None]:
    """The tasks that the member says it has."""
    if (
        request.active_tasks is None
        or request.standby_tasks is None
        or request.warmup_tasks is None
    ):
        return None
    return Tasks(
        (yield from task_map(request.active_tasks)),
        (yield from task_map(request.standby_tasks)),
        (yield from task_map(request.warmup_tasks)),
    )


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> Pieces[list[TaskIds]]:
    return mapped(
        lambda name: TaskIds(subtopology_id=name, partitions=sorted(tasks[name])),
        map_order(tasks, string_hash),
    )
