"""A streams group: its topology, members, what each is to run and runs, and who owns which task.

| state | when |
|---|---|
| Empty | no members |
| NotReady | topics are missing or do not fit the topology |
| Assigning | the assignment is older than the group epoch |
| Reconciling | members are on their way to the assignment |
| Stable | everybody has what it is to have |
| Dead | the group is gone |

What is configured of the topology, who asked for a shutdown, and the epoch of the endpoints are not
stored: a new leader of the partition finds the first again, and the others start over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kaa.coordinators.group.modern.group import ModernGroup
from kaa.coordinators.group.streams.member import StreamsMember, Tasks, task_map
from kaa.coordinators.group.streams.topology import topology_of
from kaa.coordinators.timeline import TimelineDict
from kaa.limits import GROUP_TOPICS_PER_PIECE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kaa.coordinators.group.streams.member import EpochMap
    from kaa.coordinators.group.streams.topology import ConfiguredTopology, StreamsTopology
    from kaa.coordinators.timeline import Timeline
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.offsets_streams import (
        StreamsGroupMetadataValue,
        StreamsGroupTargetAssignmentMemberValue,
        StreamsGroupTopologyValue,
    )
    from kaa.wire.schema import CoordinatorKey

_SELF: Final = ""
# One, or several.
Process = TypeVar("Process", str, tuple[str, ...])


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
        # By subtopology and partition, the process that is active on a task, and those that keep a
        # standby or warm it up. A member may have thousands of subtopologies: each is one change.
        self._active: TimelineDict[str, dict[int, str]] = TimelineDict(timeline)
        self._passive: TimelineDict[str, dict[int, tuple[str, ...]]] = TimelineDict(timeline)
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

    def active_processes(self, name: str) -> Mapping[int, str]:
        return self._active.get(name) or {}

    def passive_processes(self, name: str) -> Mapping[int, tuple[str, ...]]:
        return self._passive.get(name) or {}

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

    def _target_of(self, value: StreamsGroupTargetAssignmentMemberValue) -> Pieces[Tasks]:
        return Tasks(
            (yield from task_map(value.active_tasks)),
            (yield from task_map(value.standby_tasks)),
            (yield from task_map(value.warmup_tasks)),
        )

    def remove(self, member_id: str) -> Pieces[None]:
        yield from super().remove(member_id)
        if not self.members:
            self.shutdown_member_id = None

    def _own(self, known: StreamsMember | None, member: StreamsMember) -> Pieces[None]:
        """Tasks that a member had are free, and those it has now are not."""
        before = known or StreamsMember(member.member_id)
        if before.has_same_as(member):
            return
        yield from self._own_active(before, member)
        yield from self._own_passive(before, member)

    def _own_active(self, known: StreamsMember, member: StreamsMember) -> Pieces[None]:
        had, has = _active(known), _active(member)
        for count, name in enumerate(had | has, 1):
            if count % GROUP_TOPICS_PER_PIECE == 0:
                yield
            gone, here = had.get(name, {}), has.get(name, {})
            if gone.keys() == here.keys() and known.process_id == member.process_id:
                continue
            owners = {
                number: owner
                for number, owner in self.active_processes(name).items()
                if number not in gone or owner != known.process_id
            }
            owners.update(dict.fromkeys(here, member.process_id))
            _keep(self._active, name, owners)

    def _own_passive(self, known: StreamsMember, member: StreamsMember) -> Pieces[None]:
        for count, (name, numbers) in enumerate(_passive(known), 1):
            if count % GROUP_TOPICS_PER_PIECE == 0:
                yield
            passive = dict(self.passive_processes(name))
            for number in numbers:
                left = list(passive.pop(number, ()))
                if known.process_id in left:
                    left.remove(known.process_id)
                if left:
                    passive[number] = tuple(left)
            _keep(self._passive, name, passive)
        for count, (name, numbers) in enumerate(_passive(member), 1):
            if count % GROUP_TOPICS_PER_PIECE == 0:
                yield
            passive = dict(self.passive_processes(name))
            for number in numbers:
                passive[number] = (*passive.get(number, ()), member.process_id)
            _keep(self._passive, name, passive)


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


def _active(member: StreamsMember) -> EpochMap:
    """The active tasks that it has, or is to give up."""
    assigned, revoked = member.assigned.active, member.pending_revocation.active
    return assigned | {name: assigned.get(name, {}) | tasks for name, tasks in revoked.items()}


def _passive(member: StreamsMember) -> Iterator[tuple[str, frozenset[int]]]:
    """The others."""
    for owned in (member.assigned, member.pending_revocation):
        yield from owned.standby.items()
        yield from owned.warmup.items()


def _keep(
    processes: TimelineDict[str, dict[int, Process]], name: str, left: dict[int, Process]
) -> None:
    if left:
        processes[name] = left
    else:
        processes.pop(name)
