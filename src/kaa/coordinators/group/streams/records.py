"""Records of streams groups in the offsets topic, written and read.

Tasks stand in the order of their subtopologies, partitions in their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.coordinators.group.java_order import java_string_order
from kaa.coordinators.group.one_kind import replayed_group
from kaa.coordinators.group.streams.group import StreamsGroup
from kaa.coordinators.group.streams.member import (
    LEAVE_EPOCH,
    MemberState,
    OwnedTasks,
    StreamsMember,
    Tasks,
    UserEndpoint,
)
from kaa.coordinators.group.streams.topology import topology_of
from kaa.coordinators.machine import NewRecord
from kaa.coordinators.records import RecordType
from kaa.wire.messages import offsets_streams as stored
from kaa.wire.messages.offsets_streams import (
    CurrentMemberAssignmentTaskIds,
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    TargetAssignmentMemberTaskIds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.group.streams.member import (
        EpochMap,
        TaskMap,
    )
    from kaa.coordinators.timeline import Timeline, TimelineDict
    from kaa.wire.schema import CoordinatorKey

STREAMS_RECORD_TYPES: Final = (
    RecordType(StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    RecordType(StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    RecordType(StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    RecordType(StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    RecordType(StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    RecordType(StreamsGroupTopologyKey, StreamsGroupTopologyValue),
)
_KEYS: Final = tuple(kind.key for kind in STREAMS_RECORD_TYPES)


# --- records


def topology_record(group_id: str, value: StreamsGroupTopologyValue) -> NewRecord:
    return NewRecord(StreamsGroupTopologyKey(group_id=group_id), value)


def epoch_record(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_topology_epoch: int,
    configs: Mapping[str, str],
) -> NewRecord:
    return NewRecord(
        StreamsGroupMetadataKey(group_id=group_id),
        StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_topology_epoch,
            last_assignment_configs=[
                LastAssignmentConfig(key=key, value=configs[key]) for key in sorted(configs)
            ],
        ),
    )


def member_record(group_id: str, member: StreamsMember) -> NewRecord:
    endpoint = member.user_endpoint
    tags = member.client_tags
    return NewRecord(
        StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=(
                None
                if endpoint is None
                else stored.Endpoint(host=endpoint.host, port=endpoint.port)
            ),
            client_tags=[
                stored.KeyValue(key=key, value=tags[key])
                for key in sorted(tags, key=java_string_order)
            ],
        ),
    )


def target_epoch_record(group_id: str, epoch: int, now_ms: int) -> NewRecord:
    value = StreamsGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=now_ms
    )
    return NewRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: Tasks) -> NewRecord:
    def tasks(of_kind: TaskMap) -> list[TargetAssignmentMemberTaskIds]:
        return [
            TargetAssignmentMemberTaskIds(subtopology_id=name, partitions=sorted(of_kind[name]))
            for name in sorted(of_kind, key=java_string_order)
        ]

    return NewRecord(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        StreamsGroupTargetAssignmentMemberValue(
            active_tasks=tasks(target.active),
            standby_tasks=tasks(target.standby),
            warmup_tasks=tasks(target.warmup),
        ),
    )


def current_record(group_id: str, member: StreamsMember) -> NewRecord:
    assigned, revoked = member.assigned, member.pending_revocation
    return NewRecord(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state,
            active_tasks=_with_epochs(assigned.active),
            standby_tasks=_without_epochs(assigned.standby),
            warmup_tasks=_without_epochs(assigned.warmup),
            active_tasks_pending_revocation=_with_epochs(revoked.active),
            standby_tasks_pending_revocation=_without_epochs(revoked.standby),
            warmup_tasks_pending_revocation=_without_epochs(revoked.warmup),
        ),
    )


def _with_epochs(tasks: EpochMap) -> list[CurrentMemberAssignmentTaskIds]:
    found = []
    for name in sorted(tasks, key=java_string_order):
        numbers = sorted(tasks[name])
        epochs = [tasks[name][number] for number in numbers]
        found.append(
            CurrentMemberAssignmentTaskIds(
                subtopology_id=name, partitions=numbers, assignment_epochs=epochs
            )
        )
    return found


def _without_epochs(tasks: TaskMap) -> list[CurrentMemberAssignmentTaskIds]:
    return [
        CurrentMemberAssignmentTaskIds(
            subtopology_id=name, partitions=sorted(tasks[name]), assignment_epochs=None
        )
        for name in sorted(tasks, key=java_string_order)
    ]


def remove_member(group_id: str, member_id: str) -> list[NewRecord]:
    """Records that take a member out of its group."""
    return [
        NewRecord(key(group_id=group_id, member_id=member_id), None)
        for key in (
            StreamsGroupCurrentMemberAssignmentKey,
            StreamsGroupTargetAssignmentMemberKey,
            StreamsGroupMemberMetadataKey,
        )
    ]


def group_tombstones(group: StreamsGroup) -> list[NewRecord]:
    """Records that remove a group with all its members."""
    group_id, member_ids = group.group_id, list(group.members)

    def of_members(key: type[Any]) -> list[NewRecord]:
        return [NewRecord(key(group_id=group_id, member_id=one), None) for one in member_ids]

    return [
        *of_members(StreamsGroupCurrentMemberAssignmentKey),
        *of_members(StreamsGroupTargetAssignmentMemberKey),
        NewRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *of_members(StreamsGroupMemberMetadataKey),
        NewRecord(StreamsGroupMetadataKey(group_id=group_id), None),
        NewRecord(StreamsGroupTopologyKey(group_id=group_id), None),
    ]


# --- replay


def replay_streams(
    groups: TimelineDict[str, Group], timeline: Timeline, key: CoordinatorKey, value: Any
) -> bool:
    """Puts a record into memory; False if it is not one of a streams group."""
    if not isinstance(key, _KEYS):
        return False
    group_id: str = key.group_id  # type: ignore[attr-defined]
    group = replayed_group(groups, timeline, group_id, StreamsGroup, value)
    if group is None:
        return True
    match key:
        case StreamsGroupMetadataKey():
            if value is None:
                assert group.is_empty, f"group {group_id} is deleted while it has members"
                groups.pop(group_id)
            else:
                configs = value.last_assignment_configs or ()
                group.epochs = group.epochs._replace(
                    group_epoch=value.epoch,
                    metadata_hash=value.metadata_hash,
                    validated_topology_epoch=value.validated_topology_epoch,
                    assignment_configs={one.key: one.value for one in configs},
                )
        case StreamsGroupMemberMetadataKey():
            _replay_member(group, key.member_id, value)
        case StreamsGroupTargetAssignmentMetadataKey():
            group.epochs = group.epochs._replace(
                assignment_epoch=-1 if value is None else value.assignment_epoch,
                assignment_timestamp_ms=0 if value is None else value.assignment_timestamp,
            )
        case StreamsGroupTargetAssignmentMemberKey():
            _replay_target(group, key.member_id, value)
        case StreamsGroupCurrentMemberAssignmentKey():
            _replay_current(group, key.member_id, value)
        case StreamsGroupTopologyKey():
            group.topology = None if value is None else topology_of(value)
    return True


def _replay_member(
    group: StreamsGroup, member_id: str, value: StreamsGroupMemberMetadataValue | None
) -> None:
    if value is None:
        group.remove(member_id)
        return
    known = group.members.get(member_id) or StreamsMember(member_id)
    endpoint = value.user_endpoint
    group.put(
        known._replace(
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
    )


def _replay_target(
    group: StreamsGroup, member_id: str, value: StreamsGroupTargetAssignmentMemberValue | None
) -> None:
    if value is None:
        group.targets.pop(member_id)
    else:
        group.targets[member_id] = Tasks(
            _task_map(value.active_tasks),
            _task_map(value.standby_tasks),
            _task_map(value.warmup_tasks),
        )


def _replay_current(
    group: StreamsGroup, member_id: str, value: StreamsGroupCurrentMemberAssignmentValue | None
) -> None:
    known = group.members.get(member_id)
    if value is None:
        if known is not None:
            group.put(
                known._replace(
                    member_epoch=LEAVE_EPOCH,
                    previous_member_epoch=LEAVE_EPOCH,
                    assigned=OwnedTasks(),
                    pending_revocation=OwnedTasks(),
                )
            )
        return
    epoch = value.member_epoch
    group.put(
        (known or StreamsMember(member_id))._replace(
            member_epoch=epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=OwnedTasks(
                _epoch_map(value.active_tasks, epoch),
                _task_map(value.standby_tasks),
                _task_map(value.warmup_tasks),
            ),
            pending_revocation=OwnedTasks(
                _epoch_map(value.active_tasks_pending_revocation, epoch),
                _task_map(value.standby_tasks_pending_revocation),
                _task_map(value.warmup_tasks_pending_revocation),
            ),
        )
    )


def _task_map(
    tasks: Iterable[TargetAssignmentMemberTaskIds] | Iterable[CurrentMemberAssignmentTaskIds],
) -> TaskMap:
    return {one.subtopology_id: frozenset(one.partitions) for one in tasks}


def _epoch_map(tasks: Iterable[CurrentMemberAssignmentTaskIds], epoch: int) -> EpochMap:
    """Records of an earlier version have no epochs: that of the member counts."""
    found = {}
    for one in tasks:
        numbers, epochs = one.partitions, one.assignment_epochs
        if epochs is None or len(epochs) != len(numbers):
            epochs = [epoch] * len(numbers)
        found[one.subtopology_id] = dict(zip(numbers, epochs, strict=True))
    return found
