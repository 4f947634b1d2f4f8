"""A streams group: its topology, members, what each is to run and runs, and who owns which task.

    Empty        no members
    NotReady     topics are missing or do not fit the topology
    Assigning    the assignment is older than the group epoch
    Reconciling  members are on their way to the assignment
    Stable       everybody has what it is to have
    Dead         the group is gone

What is configured of the topology, who asked for a shutdown, and the epoch of the endpoints are not
stored: a new leader of the partition finds the first again, and the others start over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.coordinators.group.modern.group import ModernGroup
from kaa.coordinators.group.streams.member import StreamsMember, Tasks, task_map
from kaa.coordinators.group.streams.topology import topology_of
from kaa.coordinators.timeline import TimelineDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaa.coordinators.group.streams.member import OwnedTasks, TaskMap
    from kaa.coordinators.group.streams.topology import ConfiguredTopology, StreamsTopology
    from kaa.coordinators.timeline import Timeline
    from kaa.wire.messages.offsets_streams import (
        StreamsGroupMetadataValue,
        StreamsGroupTargetAssignmentMemberValue,
        StreamsGroupTopologyValue,
    )
    from kaa.wire.schema import CoordinatorKey

_SELF: Final = ""


class StreamsEpochs(NamedTuple):
    """What a group has besides its topology and members."""

    group_epoch: int = 1
    metadata_hash: int = 0
    # The topology epoch for which all topics were there; -1 if they are not.
    validated_topology_epoch: int = 0
    # The settings that the assignment was made with. Never changed in place.
    assignment_configs: dict[str, str] = {}  # noqa: RUF012
    assignment_epoch: int = 1
    assignment_timestamp_ms: int = 0


class StreamsGroup(ModernGroup[StreamsEpochs, StreamsMember, Tasks]):
    """A streams group in memory. What is stored changes by replayed records; the `committed_`
    values are what a describe may show.
    """

    kind = "streams"
    protocol_type = "streams"

    def __init__(self, group_id: str, timeline: Timeline) -> None:
        super().__init__(group_id, timeline, StreamsEpochs(), StreamsMember)
        self._topology: TimelineDict[str, StreamsTopology] = TimelineDict(timeline)
        # The process that is active on a task, and those that keep a standby or warm it up.
        self._active: TimelineDict[tuple[str, int], str] = TimelineDict(timeline)
        self._passive: TimelineDict[tuple[str, int], tuple[str, ...]] = TimelineDict(timeline)
        self.configured: ConfiguredTopology | None = None
        # The member that asked all others to shut down, until the group is empty.
        self.shutdown_member_id: str | None = None
        # Counts changes of what is found at which endpoint.
        self.endpoint_epoch = 0

    @property
    def topology(self) -> StreamsTopology | None:
        return self._topology.get(_SELF)

    @property
    def committed_topology(self) -> StreamsTopology | None:
        return self._topology.committed(_SELF)

    # --- questions

    def active_process(self, name: str, partition: int) -> str | None:
        return self._active.get((name, partition))

    def has_passive(self, name: str, partition: int, process_id: str) -> bool:
        return process_id in (self._passive.get((name, partition)) or ())

    @property
    def shown_state(self) -> str:
        """The state as readers see it."""
        members = [member for _, member in self.members.committed_items()]
        return _state(self.committed_epochs, self.committed_topology, members)

    def target(self, member_id: str) -> Tasks:
        return self.targets.get(member_id) or Tasks()

    def subscribed_topics(self) -> set[str]:
        """None if nobody is there: offsets of such a group may expire."""
        if self.is_empty or self.topology is None:
            return set()
        return set(self.topology.by_source_topic)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics()

    def validate_offset_delete(self) -> None:
        """Offsets of topics that are not read may always be deleted."""

    # --- replay

    def replay_epoch(self, value: StreamsGroupMetadataValue) -> None:
        super().replay_epoch(value)
        self.epochs = self.epochs._replace(
            validated_topology_epoch=value.validated_topology_epoch,
            assignment_configs={one.key: one.value for one in value.last_assignment_configs or ()},
        )

    def replay_own(self, key: CoordinatorKey, value: StreamsGroupTopologyValue | None) -> None:
        if value is None:
            self._topology.pop(_SELF)
        else:
            self._topology[_SELF] = topology_of(value)

    def _target_of(self, value: StreamsGroupTargetAssignmentMemberValue) -> Tasks:
        return Tasks(
            task_map(value.active_tasks),
            task_map(value.standby_tasks),
            task_map(value.warmup_tasks),
        )

    def put(self, member: StreamsMember) -> None:
        self._release(member.member_id)
        for owned in (member.assigned, member.pending_revocation):
            for task in _active_tasks(owned):
                self._active[task] = member.process_id
            for task in _passive_tasks(owned):
                self._passive[task] = (*(self._passive.get(task) or ()), member.process_id)
        self.members[member.member_id] = member

    def remove(self, member_id: str) -> None:
        self._release(member_id)
        self.members.pop(member_id)
        if not self.members:
            self.shutdown_member_id = None

    def _release(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is None:
            return
        for owned in (member.assigned, member.pending_revocation):
            for task in _active_tasks(owned):
                if self._active.get(task) == member.process_id:
                    self._active.pop(task)
            for task in _passive_tasks(owned):
                left = list(self._passive.get(task) or ())
                if member.process_id in left:
                    left.remove(member.process_id)
                if left:
                    self._passive[task] = tuple(left)
                else:
                    self._passive.pop(task)


def _state(
    epochs: StreamsEpochs, topology: StreamsTopology | None, members: Iterable[StreamsMember]
) -> str:
    found = list(members)
    if not found:
        return "Empty"
    if topology is None or topology.epoch != epochs.validated_topology_epoch:
        return "NotReady"
    if epochs.group_epoch > epochs.assignment_epoch:
        return "Assigning"
    if all(member.is_reconciled_to(epochs.assignment_epoch) for member in found):
        return "Stable"
    return "Reconciling"


def _active_tasks(owned: OwnedTasks) -> Iterator[tuple[str, int]]:
    return ((name, number) for name, numbers in owned.active.items() for number in numbers)


def _passive_tasks(owned: OwnedTasks) -> Iterator[tuple[str, int]]:
    kinds: tuple[TaskMap, ...] = (owned.standby, owned.warmup)
    return (
        (name, number) for tasks in kinds for name, numbers in tasks.items() for number in numbers
    )
