"""One heartbeat of a member of a streams group, step by step, each in records.

The member, the topology if it is the first one, the topics that the topology needs, the group
epoch, the target assignment, and what the member has of it. What the member learns beside its
tasks is gathered on the way (`statuses`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.assignors.sticky import Subtopology, TaskMember, assign_tasks
from kaa.coordinators.group.java_order import map_order, string_hash
from kaa.coordinators.group.modern.group import can_compute
from kaa.coordinators.group.streams.member import Tasks
from kaa.coordinators.group.streams.reconcile import reconciled
from kaa.coordinators.group.streams.records import (
    STREAMS_RECORDS,
    epoch_record,
    topology_record,
)
from kaa.coordinators.group.streams.topology import (
    Status,
    check_topology,
    configure,
    is_same,
    topology_of,
    topology_value,
)
from kaa.coordinators.machine import CoordinatorError
from kaa.model.words import count_text
from kaa.wire.errors import Errors
from kaa.wire.messages.k88_streams_group_heartbeat import Status as HeartbeatStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.coordinators.group.settings import StreamsTimes
    from kaa.coordinators.group.streams.group import StreamsGroup
    from kaa.coordinators.group.streams.member import StreamsMember
    from kaa.coordinators.group.streams.topology import (
        ConfiguredTopology,
        StreamsTopology,
    )
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.coordinators.machine import Moment, NewRecord
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k88_streams_group_heartbeat import TaskIds, Topology

_STANDBY_CONFIG: Final = "num.standby.replicas"


def assignment_configs(times: StreamsTimes) -> dict[str, str]:
    """The settings that an assignment depends on, as they are stored."""
    return {_STANDBY_CONFIG: str(times.num_standby_replicas)}


def stored_standby_count(configs: Mapping[str, str]) -> int:
    return int(configs.get(_STANDBY_CONFIG, "0"))


class Update:
    """One heartbeat while it is handled: `member` as it was, `updated` as it becomes. The steps are
    called in the order in which they stand here.
    """

    def __init__(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        updated: StreamsMember,
        topics: GroupTopics,
        times: StreamsTimes,
        now: Moment,
    ) -> None:
        self._topics = topics
        self._times = times
        self._now = now
        self.group = group
        self.member = member
        self.updated = updated
        self.records: list[NewRecord] = []
        self.statuses: list[HeartbeatStatus] = []
        self._is_bumped = False
        self.group_epoch = group.epochs.group_epoch
        self._hash = group.epochs.metadata_hash
        # That of the topics when they were looked at: they may change between two pieces.
        self._topics_version = topics.version

    def tell(self, status: Status, detail: str) -> None:
        self.statuses.append(HeartbeatStatus(status_code=status, status_detail=detail))

    def store_member(self) -> None:
        if self.updated != self.member:
            self.records.append(STREAMS_RECORDS.member_record(self.group.group_id, self.updated))
            self._is_bumped = True

    # --- topology

    def store_topology(self, sent: Topology | None) -> Pieces[StreamsTopology]:
        """The first topology of a group stays."""
        known = self.group.topology
        if sent is None:
            if known is None:
                raise CoordinatorError(Errors.UNKNOWN_SERVER_ERROR, "The group has no topology.")
            topology = known
        else:
            value = yield from topology_value(sent)
            check_topology(value)
            yield
            topology = topology_of(value)
            if known is None:
                self.records.append(topology_record(self.group.group_id, value))
            elif known.epoch <= topology.epoch and not (yield from is_same(known, topology)):
                raise CoordinatorError(
                    Errors.INVALID_REQUEST,
                    "A group keeps its topology: use another application.id for another one.",
                )
            else:
                topology = known
        if known is not None and self.updated.topology_epoch < known.epoch:
            self.tell(
                Status.STALE_TOPOLOGY,
                f"The member's topology epoch {self.updated.topology_epoch} is behind the group's "
                f"topology epoch {known.epoch}.",
            )
        return topology

    def configure(self, topology: StreamsTopology) -> Pieces[ConfiguredTopology]:
        """Looks at the topics again if they may have changed."""
        group, topics = self.group, self._topics
        self._topics_version = topics.version
        is_checked = group.has_checked_topics(topics.version)
        configured = group.configured
        if group.topology is not None and configured is not None and is_checked:
            return configured
        required = topology.required_topics
        yield from topics.prepare(required)
        self._hash = topics.group_hash(required)
        yield
        is_changed = self._hash != group.epochs.metadata_hash
        if is_changed:
            self._is_bumped = True
        if is_changed or group.topology is None or configured is None:
            configured = group.configured = yield from configure(topology, topics)
        return configured

    def check_tasks(self, configured: ConfiguredTopology, *owned: Iterable[TaskIds] | None) -> None:
        """Refuses tasks that there are not."""
        if not configured.is_ready:
            return
        known = configured.subtopologies or {}
        for tasks in owned:
            for one in tasks or ():
                name = one.subtopology_id
                if name not in known:
                    raise CoordinatorError(
                        Errors.INVALID_REQUEST, f"The topology has no subtopology {name}."
                    )
                count = known[name].task_count
                for number in one.partitions:
                    if not 0 <= number < count:
                        raise CoordinatorError(
                            Errors.INVALID_REQUEST,
                            f"Subtopology {name} has {count_text(count, 'task')}, not {number}.",
                        )

    # --- epochs and assignments

    def bump_epoch(self, configured: ConfiguredTopology) -> None:
        epochs = self.group.epochs
        validated_epoch = configured.epoch if configured.is_ready else -1
        configs = assignment_configs(self._times)
        if (
            self._is_bumped
            or validated_epoch != epochs.validated_topology_epoch
            or configs != epochs.assignment_configs
        ):
            self.group_epoch += 1
            self.records.append(
                epoch_record(
                    self.group.group_id, self.group_epoch, self._hash, validated_epoch, configs
                )
            )
        self.group.topics_checked = (self._topics_version, self.group_epoch)

    def assign(
        self, configured: ConfiguredTopology, *, is_delayed: bool
    ) -> Pieces[tuple[int, Tasks]]:
        """Computes a new target if the group epoch is ahead; epoch and target of the member."""
        epochs, member_id = self.group.epochs, self.updated.member_id
        if is_delayed:
            self.tell(
                Status.ASSIGNMENT_DELAYED,
                "Assignment delayed due to the configured initial rebalance delay.",
            )
            return epochs.assignment_epoch, Tasks()
        last = epochs.assignment_epoch, self.group.target(member_id)
        if epochs.assignment_epoch >= self.group_epoch:
            return last
        interval_ms = self._times.assignment_interval_ms
        if not can_compute(epochs.assignment_timestamp_ms, interval_ms, self._now.wall_ms):
            self.tell(
                Status.ASSIGNMENT_DELAYED,
                "Assignment delayed due to the configured assignment interval.",
            )
            return last
        members = dict(self.group.members.items()) | {member_id: self.updated}
        records, found = yield from computed(
            self.group,
            members,
            configured,
            self.group_epoch,
            self._times.num_standby_replicas,
            self._now,
        )
        self.records += records
        return self.group_epoch, found[member_id]

    def follow(self, epoch: int, target: Tasks, owned: Tasks | None) -> Pieces[bool]:
        """The member takes a step to its target; whether it took one."""
        if self.updated.is_reconciled_to(epoch):
            return False
        followed = yield from reconciled(self.updated, self.group, epoch, target, owned)
        if followed == self.updated:
            return False
        record = yield from STREAMS_RECORDS.current_record(self.group.group_id, followed)
        self.records.append(record)
        self.updated = followed
        return True


def computed(
    group: StreamsGroup,
    members: Mapping[str, StreamsMember],
    configured: ConfiguredTopology,
    epoch: int,
    standby_count: int,
    now: Moment,
) -> Pieces[tuple[list[NewRecord], dict[str, Tasks]]]:
    """A new target assignment, and the records of what it changes."""
    found = {member_id: Tasks() for member_id in map_order(members, string_hash)}
    if configured.is_ready:
        assigned = yield from assign_tasks(
            {
                member_id: TaskMember(
                    member.process_id,
                    group.target(member_id).active,
                    group.target(member_id).standby,
                )
                for member_id, member in members.items()
            },
            {
                name: Subtopology(one.task_count, bool(one.state_changelog_topics))
                for name, one in (configured.subtopologies or {}).items()
            },
            standby_count,
        )
        found = {name: Tasks(one.active, one.standby) for name, one in assigned.items()}
    records = yield from STREAMS_RECORDS.target_records(group, epoch, found, now.wall_ms)
    return records, found
