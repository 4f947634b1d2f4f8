"""Offsets that a transaction commits: TxnOffsetCommit, and the markers of the offsets topic.

They are written in batches of the transaction and wait beside the offsets that count (`committed`)
until its marker comes, through the shard like everything else in the partition. Anyone who asks for
stable offsets meanwhile has to wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.classic.group import ClassicGroupState
from kaa.coordinators.group.consumer.commit import validate_transactional_commit
from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.offsets.commands import is_long, is_too_large
from kaa.coordinators.group.offsets.committed import CommittedOffset, offset_record
from kaa.coordinators.group.share.group import ShareGroup
from kaa.coordinators.group.streams.commit import (
    validate_transactional_commit as validate_streams_commit,
)
from kaa.coordinators.group.streams.group import StreamsGroup
from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    import asyncio

    from kaa.coordinators.group.machine import GroupMachine
    from kaa.coordinators.group.offsets.committed import OffsetRecord
    from kaa.coordinators.machine import Moment
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k28_txn_offset_commit import TxnOffsetCommitRequest


async def ended(ending: asyncio.Future[Errors]) -> Errors:
    """How the end of a transaction on the offsets topic went, for the answer to its markers."""
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


def commit_offsets(
    machine: GroupMachine, request: TxnOffsetCommitRequest, now: Moment
) -> CoordinatorResult | Pieces[CoordinatorResult]:
    """The command of the machine."""
    _validate(machine, request)
    work = _commit(request, machine.settings().offset_metadata_bytes_max, now)
    return work if is_long(request.topics) else finish(work)


def _commit(
    request: TxnOffsetCommitRequest, metadata_max: int, now: Moment
) -> Pieces[CoordinatorResult]:
    count = 0
    records: list[OffsetRecord] = []
    response = TxnOffsetCommitResponse(topics=[])
    for topic in request.topics:
        answered = TxnOffsetCommitResponseTopic(name=topic.name, partitions=[])
        response.topics.append(answered)
        for partition in topic.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or ""
            error = Errors.NONE
            if metadata and is_too_large(metadata, metadata_max):
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
            count += 1
            if count % RECORDS_PER_PIECE == 0:
                yield
    return CoordinatorResult(records, response)


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
    if isinstance(group, StreamsGroup):
        validate_streams_commit(group, request)
        return
    if isinstance(group, ShareGroup):
        raise CoordinatorError(Errors.GROUP_ID_NOT_FOUND)
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
