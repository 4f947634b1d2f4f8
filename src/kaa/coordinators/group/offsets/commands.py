"""Commands on the offsets of a group: commit them and delete them.

Whether a commit is allowed is for the group to say; what is stored is decided here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from kaa.coordinators.group.classic.group import ClassicGroupState
from kaa.coordinators.group.consumer.group import ConsumerGroup, validate_partition_commit
from kaa.coordinators.group.offsets.committed import (
    CommittedOffset,
    OffsetRecord,
    offset_key_start,
    offset_tombstone,
)
from kaa.coordinators.group.share.group import ShareGroup
from kaa.coordinators.group.streams.commit import validate_commit
from kaa.coordinators.group.streams.group import StreamsGroup
from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import finish
from kaa.model.topics import NO_TIMESTAMP
from kaa.wire.errors import Errors
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kaa.wire.messages.k47_offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sized

    from kaa.coordinators.group.classic.group import ClassicGroup
    from kaa.coordinators.group.consumer.member import ConsumerMember
    from kaa.coordinators.group.machine import GroupMachine
    from kaa.coordinators.machine import Moment
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
    from kaa.wire.messages.k47_offset_delete import OffsetDeleteRequest

    Check = Callable[[OffsetCommitRequestTopic, int], None]


class HasPartitions(Protocol):
    """A topic of a request."""

    @property
    def partitions(self) -> Sized: ...


_DEFAULT_RETENTION: Final = -1
# The version from which a client learns that its group does not exist.
_GROUP_NOT_FOUND_VERSION: Final = 9


def commit_offsets(
    machine: GroupMachine, request: OffsetCommitRequest, api_version: int, now: Moment
) -> CoordinatorResult | Pieces[CoordinatorResult]:
    """Stores offsets of partitions that exist; those of many partitions in pieces."""
    generation_id = request.generation_id_or_member_epoch
    group = machine.groups.get(request.group_id)
    # What looks at each partition, for members with an older epoch than their group.
    check: Check | None = None
    if isinstance(group, ConsumerGroup):
        behind = group.validate_offset_commit(
            request.member_id, request.group_instance_id, generation_id, api_version=api_version
        )
        if behind is not None:
            check = partial(_check_epoch, behind, generation_id)
    elif group is None:
        if generation_id >= 0:
            is_known = api_version >= _GROUP_NOT_FOUND_VERSION
            raise CoordinatorError(
                Errors.GROUP_ID_NOT_FOUND if is_known else Errors.ILLEGAL_GENERATION
            )
    elif isinstance(group, StreamsGroup):
        check_task = validate_commit(group, request.member_id, generation_id, api_version)
        if check_task is not None:
            check = partial(_check_task, check_task)
    elif isinstance(group, ShareGroup):
        raise CoordinatorError(Errors.GROUP_ID_NOT_FOUND)
    else:
        group.validate_offset_commit(request.member_id, request.group_instance_id, generation_id)
        _commit_is_heartbeat(machine, group, request.member_id, now)
    work = _commit(request, check, machine.settings().offset_metadata_bytes_max, now)
    return work if is_long(request.topics) else finish(work)


def _check_epoch(
    member: ConsumerMember, epoch: int, topic: OffsetCommitRequestTopic, index: int
) -> None:
    validate_partition_commit(member, epoch, topic.topic_id, index)


def _check_task(
    check: Callable[[str, int], None], topic: OffsetCommitRequestTopic, index: int
) -> None:
    check(topic.name, index)


def is_long(topics: Iterable[HasPartitions]) -> bool:
    """Whether a request about these is dealt with in pieces."""
    return sum(len(topic.partitions) for topic in topics) > RECORDS_PER_PIECE


def _commit(
    request: OffsetCommitRequest,
    check: Check | None,
    metadata_max: int,
    now: Moment,
) -> Pieces[CoordinatorResult]:
    retention_ms = request.retention_time_ms
    expire_ms = NO_TIMESTAMP if retention_ms == _DEFAULT_RETENTION else now.wall_ms + retention_ms
    group_id, wall_ms = request.group_id, now.wall_ms
    records: list[OffsetRecord] = []
    response = OffsetCommitResponse(topics=[])
    count = 0
    for topic in request.topics:
        name, topic_id = topic.name, topic.topic_id
        answers: list[OffsetCommitResponsePartition] = []
        response.topics.append(
            OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=answers)
        )
        key_start = offset_key_start(group_id, name)
        for partition in topic.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or ""
            error = Errors.NONE
            if check is not None:
                check(topic, index)
            if metadata and is_too_large(metadata, metadata_max):
                error = Errors.OFFSET_METADATA_TOO_LARGE
            else:
                committed = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    wall_ms,
                    expire_ms,
                    topic_id,
                )
                records.append(OffsetRecord(group_id, name, index, committed, key_start))
            answers.append(OffsetCommitResponsePartition(partition_index=index, error_code=error))
            count += 1
            if count % RECORDS_PER_PIECE == 0:
                yield
    return CoordinatorResult(records, response)


def is_too_large(metadata: str, units_max: int) -> bool:
    """Java counts what a client says beside an offset in units of UTF-16."""
    return len(metadata.encode("utf-16-be")) // 2 > units_max


def _commit_is_heartbeat(
    machine: GroupMachine, group: ClassicGroup, member_id: str, now: Moment
) -> None:
    member = group.members.get(member_id)
    states = (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE)
    if member is not None and group.is_in(*states):
        machine.classic.rebalances.expect_heartbeat(group, member, now)


def delete_offsets(
    machine: GroupMachine, request: OffsetDeleteRequest
) -> CoordinatorResult | Pieces[CoordinatorResult]:
    group = machine.groups.get(request.group_id)
    if group is None:
        raise CoordinatorError(Errors.GROUP_ID_NOT_FOUND)
    group.validate_offset_delete()
    work = _delete(machine, request, group.is_subscribed_to)
    return work if is_long(request.topics) else finish(work)


def _delete(
    machine: GroupMachine, request: OffsetDeleteRequest, is_read: Callable[[str], bool]
) -> Pieces[CoordinatorResult]:
    offsets = machine.offsets.of_group(request.group_id)
    pending = machine.offsets.pending_of(request.group_id)
    records = []
    response = OffsetDeleteResponse(topics=[])
    count = 0
    for topic in request.topics:
        is_subscribed = is_read(topic.name)
        error = Errors.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else Errors.NONE
        answered = OffsetDeleteResponseTopic(name=topic.name, partitions=[])
        response.topics.append(answered)
        for partition in topic.partitions:
            index = partition.partition_index
            answered.partitions.append(
                OffsetDeleteResponsePartition(partition_index=index, error_code=error)
            )
            name = (topic.name, index)
            is_known = name in pending or (offsets is not None and name in offsets)
            if is_known and not is_subscribed:
                records.append(offset_tombstone(request.group_id, topic.name, index))
            count += 1
            if count % RECORDS_PER_PIECE == 0:
                yield
    return CoordinatorResult(records, response)
