"""Members of a streams group, and their tasks.

A task is a partition of a subtopology; tasks stand by the ids of their subtopologies. A member is
active on a task, or keeps a standby of its state; tasks that warm up are stored but never given.
Active tasks that a member has are kept with the epoch in which it got them: a commit with an older
member epoch counts for a task that the member has had since then.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from kaa.coordinators.group.modern.group import LEAVE_EPOCH
from kaa.model.pieces import mapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k88_streams_group_heartbeat import TaskIds
    from kaa.wire.messages.offsets_streams import (
        CurrentMemberAssignmentTaskIds,
        StreamsGroupCurrentMemberAssignmentValue,
        StreamsGroupMemberMetadataValue,
        TargetAssignmentMemberTaskIds,
    )

    AnyTaskIds = TaskIds | CurrentMemberAssignmentTaskIds | TargetAssignmentMemberTaskIds


# Partitions by subtopology. Never changed in place.
TaskMap = dict[str, frozenset[int]]
# The epoch since which a member has each partition, by subtopology. Never changed in place.
EpochMap = dict[str, dict[int, int]]


class MemberState(IntEnum):
    """How far a member is on the way to its target."""

    # It has what it is to have at its epoch.
    STABLE = 1
    # It is to give up tasks before it gets to the next epoch.
    UNREVOKED_TASKS = 2
    # It waits for tasks that others have not given up.
    UNRELEASED_TASKS = 3
    # A later version stored a state that this one does not know.
    UNKNOWN = 127

    @classmethod
    def of(cls, value: int) -> MemberState:
        return cls(value) if value in cls._value2member_map_ else cls.UNKNOWN


class Tasks(NamedTuple):
    """Tasks that a member is to have, or says that it has."""

    active: TaskMap = {}  # noqa: RUF012
    standby: TaskMap = {}  # noqa: RUF012
    warmup: TaskMap = {}  # noqa: RUF012

    def has_any(self, owned: OwnedTasks) -> bool:
        return (
            _overlaps(self.active, owned.active)
            or _overlaps(self.standby, owned.standby)
            or _overlaps(self.warmup, owned.warmup)
        )


class OwnedTasks(NamedTuple):
    """Tasks that a member has, as the group knows."""

    active: EpochMap = {}  # noqa: RUF012
    standby: TaskMap = {}  # noqa: RUF012
    warmup: TaskMap = {}  # noqa: RUF012

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


class UserEndpoint(NamedTuple):
    """Where the application of a member answers queries."""

    host: str
    port: int


class StreamsMember(NamedTuple):
    """A member, as a value that is replaced when something changes."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: UserEndpoint | None = None
    client_tags: dict[str, str] = {}  # noqa: RUF012
    assigned: OwnedTasks = OwnedTasks()
    pending_revocation: OwnedTasks = OwnedTasks()

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def has_same_as(self, other: StreamsMember) -> bool:
        """Whether both have the same tasks, in the same process."""
        return (self.process_id, self.assigned, self.pending_revocation) == (
            other.process_id,
            other.assigned,
            other.pending_revocation,
        )

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
        endpoint = value.user_endpoint
        return self._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
            client_tags={one.key: one.value for one in value.client_tags},
        )

    def with_assignment(
        self, value: StreamsGroupCurrentMemberAssignmentValue
    ) -> Pieces[StreamsMember]:
        epoch = value.member_epoch
        return self._replace(
            member_epoch=epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=OwnedTasks(
                (yield from _epoch_map(value.active_tasks, epoch)),
                (yield from task_map(value.standby_tasks)),
                (yield from task_map(value.warmup_tasks)),
            ),
            pending_revocation=OwnedTasks(
                (yield from _epoch_map(value.active_tasks_pending_revocation, epoch)),
                (yield from task_map(value.standby_tasks_pending_revocation)),
                (yield from task_map(value.warmup_tasks_pending_revocation)),
            ),
        )

    def without_assignment(self) -> StreamsMember:
        return self._replace(
            member_epoch=LEAVE_EPOCH,
            previous_member_epoch=LEAVE_EPOCH,
            assigned=OwnedTasks(),
            pending_revocation=OwnedTasks(),
        )


def task_map(tasks: Iterable[AnyTaskIds]) -> Pieces[TaskMap]:
    found = yield from mapped(lambda one: (one.subtopology_id, frozenset(one.partitions)), tasks)
    return dict(found)


def _epoch_map(tasks: Iterable[CurrentMemberAssignmentTaskIds], epoch: int) -> Pieces[EpochMap]:
    """Records of an earlier version have no epochs: that of the member counts."""

    def of_subtopology(one: CurrentMemberAssignmentTaskIds) -> tuple[str, dict[int, int]]:
        numbers, epochs = one.partitions, one.assignment_epochs
        if epochs is None or len(epochs) != len(numbers):
            return one.subtopology_id, dict.fromkeys(numbers, epoch)
        return one.subtopology_id, dict(zip(numbers, epochs, strict=True))

    return dict((yield from mapped(of_subtopology, tasks)))


def is_within(owned: Iterable[TaskIds] | None, tasks: Mapping[str, Iterable[int]]) -> bool:
    """Whether a member says that it has nothing but these tasks."""
    return owned is not None and all(
        one.subtopology_id in tasks and set(one.partitions) <= set(tasks[one.subtopology_id])
        for one in owned
    )


def _overlaps(tasks: TaskMap, others: Mapping[str, Iterable[int]]) -> bool:
    return any(not numbers.isdisjoint(others.get(name, ())) for name, numbers in tasks.items())
