"""Offsets that a transaction commits: TxnOffsetCommit, and the markers of the offsets topic.

They are written in batches of the transaction and wait beside the offsets that count (`offsets`)
until its marker comes, through the shard like everything else in the partition. Whoever asks for
stable offsets meanwhile is told to wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.coordinators.group.classic_group import ClassicGroupState
from kaa.coordinators.group.consumer_commit import validate_transactional_commit
from kaa.coordinators.group.consumer_group import ConsumerGroup
from kaa.coordinators.group.offsets import CommittedOffset, offset_record
from kaa.coordinators.machine import CoordinatorError, Result, told
from kaa.wire.errors import Errors
from kaa.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    import asyncio

    from kaa.coordinators.group.coordinator import GroupCoordinator
    from kaa.coordinators.group.machine import GroupMachine
    from kaa.coordinators.machine import Moment, NewRecord
    from kaa.coordinators.shard import TransactionalWriter
    from kaa.wire.messages.k28_txn_offset_commit import TxnOffsetCommitRequest


async def commit_transactional_offsets(
    groups: GroupCoordinator,
    request: TxnOffsetCommitRequest,
    writer: TransactionalWriter,
) -> TxnOffsetCommitResponse:
    """Stores offsets of partitions that exist, which count when the transaction commits."""
    number = groups.partition_for(request.group_id)
    try:
        response: TxnOffsetCommitResponse = await groups.runtime.write_in_transaction(
            number,
            lambda machine, now: commit_offsets(machine, request, now),
            writer,
        )
    except CoordinatorError as refusal:
        return refused_commit(request, told(refusal.error))
    return response


async def ended(ending: asyncio.Future[Any]) -> Errors:
    """How the end of a transaction on the offsets topic went, as the sender of markers is told."""
    try:
        await ending
    except CoordinatorError as refusal:
        is_elsewhere = refusal.error in {
            Errors.COORDINATOR_LOAD_IN_PROGRESS,
            Errors.COORDINATOR_NOT_AVAILABLE,
            Errors.NOT_COORDINATOR,
        }
        return Errors.NOT_LEADER_OR_FOLLOWER if is_elsewhere else refusal.error
    return Errors.NONE


def commit_offsets(machine: GroupMachine, request: TxnOffsetCommitRequest, now: Moment) -> Result:
    """The command of the machine."""
    _validate(machine, request)
    metadata_max = machine.settings().offset_metadata_bytes_max
    records: list[NewRecord] = []
    response = TxnOffsetCommitResponse(topics=[])
    for topic in request.topics:
        answered = TxnOffsetCommitResponseTopic(name=topic.name, partitions=[])
        response.topics.append(answered)
        for partition in topic.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or ""
            error = Errors.NONE
            if len(metadata.encode("utf-16-be")) // 2 > metadata_max:
                error = Errors.OFFSET_METADATA_TOO_LARGE
            else:
                committed = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    now.wall_ms,
                )
                records.append(offset_record(request.group_id, topic.name, index, committed))
            answered.partitions.append(
                TxnOffsetCommitResponsePartition(partition_index=index, error_code=error)
            )
    return Result(records, response)


def _validate(machine: GroupMachine, request: TxnOffsetCommitRequest) -> None:
    group = machine.groups.get(request.group_id)
    member_id, instance_id = request.member_id, request.group_instance_id
    generation_id = request.generation_id
    if group is None:
        if generation_id >= 0:
            raise CoordinatorError(Errors.ILLEGAL_GENERATION)
        return
    if isinstance(group, ConsumerGroup):
        validate_transactional_commit(group, request, machine.consumer.topics)
        return
    if group.state is ClassicGroupState.DEAD:
        raise CoordinatorError(Errors.COORDINATOR_NOT_AVAILABLE)
    if generation_id < 0 and not member_id and instance_id is None:
        # A producer that does not say for which member it commits.
        return
    if generation_id < 0 and group.state is ClassicGroupState.EMPTY:
        return
    group.validate_member(member_id, instance_id)
    if generation_id != group.generation_id:
        raise CoordinatorError(Errors.ILLEGAL_GENERATION)


def refused_commit(request: TxnOffsetCommitRequest, error: Errors) -> TxnOffsetCommitResponse:
    """The same error for every partition."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
