"""Records of streams groups in the offsets topic.

Tasks stand in the order of their subtopologies, partitions in their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.java_order import java_string_order
from kaa.coordinators.group.modern.records import ModernRecords, tombstone
from kaa.coordinators.group.streams.group import StreamsGroup
from kaa.coordinators.machine import NewRecord
from kaa.coordinators.records import RecordType
from kaa.model.pieces import mapped
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
    from collections.abc import Mapping

    from kaa.coordinators.group.streams.member import EpochMap, StreamsMember, TaskMap, Tasks
    from kaa.model.pieces import Pieces

# --- values


def _member_value(member: StreamsMember) -> StreamsGroupMemberMetadataValue:
    endpoint, tags = member.user_endpoint, member.client_tags
    return StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=(
            None if endpoint is None else stored.Endpoint(host=endpoint.host, port=endpoint.port)
        ),
        client_tags=[
            stored.KeyValue(key=key, value=tags[key]) for key in sorted(tags, key=java_string_order)
        ],
    )


def _target_value(target: Tasks) -> Pieces[StreamsGroupTargetAssignmentMemberValue]:
    def tasks(of_kind: TaskMap) -> Pieces[list[TargetAssignmentMemberTaskIds]]:
        return mapped(
            lambda name: TargetAssignmentMemberTaskIds(
                subtopology_id=name, partitions=sorted(of_kind[name])
            ),
            sorted(of_kind, key=java_string_order),
        )

    return StreamsGroupTargetAssignmentMemberValue(
        active_tasks=(yield from tasks(target.active)),
        standby_tasks=(yield from tasks(target.standby)),
        warmup_tasks=(yield from tasks(target.warmup)),
    )


def _current_value(member: StreamsMember) -> Pieces[StreamsGroupCurrentMemberAssignmentValue]:
    assigned, revoked = member.assigned, member.pending_revocation
    return StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        active_tasks=(yield from _with_epochs(assigned.active)),
        standby_tasks=(yield from _without_epochs(assigned.standby)),
        warmup_tasks=(yield from _without_epochs(assigned.warmup)),
        active_tasks_pending_revocation=(yield from _with_epochs(revoked.active)),
        standby_tasks_pending_revocation=(yield from _without_epochs(revoked.standby)),
        warmup_tasks_pending_revocation=(yield from _without_epochs(revoked.warmup)),
    )


def _with_epochs(tasks: EpochMap) -> Pieces[list[CurrentMemberAssignmentTaskIds]]:
    def of_subtopology(name: str) -> CurrentMemberAssignmentTaskIds:
        numbers = sorted(tasks[name])
        epochs = [tasks[name][number] for number in numbers]
        return CurrentMemberAssignmentTaskIds(
            subtopology_id=name, partitions=numbers, assignment_epochs=epochs
        )

    return mapped(of_subtopology, sorted(tasks, key=java_string_order))


def _without_epochs(tasks: TaskMap) -> Pieces[list[CurrentMemberAssignmentTaskIds]]:
    return mapped(
        lambda name: CurrentMemberAssignmentTaskIds(
            subtopology_id=name, partitions=sorted(tasks[name]), assignment_epochs=None
        ),
        sorted(tasks, key=java_string_order),
    )


# --- records

_TOPOLOGY: Final = RecordType(StreamsGroupTopologyKey, StreamsGroupTopologyValue)

STREAMS_RECORDS: Final = ModernRecords(
    StreamsGroup,
    epoch=RecordType(StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    member=RecordType(StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    target_epoch=RecordType(
        StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue
    ),
    target=RecordType(
        StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue
    ),
    current=RecordType(
        StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue
    ),
    own=(_TOPOLOGY,),
    member_value=_member_value,
    target_value=_target_value,
    current_value=_current_value,
)


def topology_record(group_id: str, value: StreamsGroupTopologyValue) -> NewRecord:
    return NewRecord(StreamsGroupTopologyKey(group_id=group_id), value)


def epoch_record(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_topology_epoch: int,
    configs: Mapping[str, str],
) -> NewRecord:
    return STREAMS_RECORDS.epoch_record(
        group_id,
        epoch,
        metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[
            LastAssignmentConfig(key=key, value=configs[key]) for key in sorted(configs)
        ],
    )


def group_tombstones(group: StreamsGroup) -> list[NewRecord]:
    """Records that remove a group with all its members."""
    group_id = group.group_id
    return [
        *STREAMS_RECORDS.remove_group(group_id, list(group.members)),
        tombstone(_TOPOLOGY, group_id=group_id),
    ]
