"""Whether a member of a streams group may commit, and fetch, the offsets of its tasks.

A commit with the member's epoch counts. One with an older epoch counts for tasks that the member
has had since then: it may have been sent before the member heard of its new epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.machine import CoordinatorError
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.coordinators.group.streams.group import StreamsGroup
    from kaa.coordinators.group.streams.member import StreamsMember
    from kaa.coordinators.group.streams.topology import StreamsTopology
    from kaa.wire.messages.k28_txn_offset_commit import TxnOffsetCommitRequest

# The first version of OffsetCommit that knows member epochs.
_MEMBER_EPOCH_VERSION: Final = 9


def validate_commit(
    group: StreamsGroup, member_id: str, member_epoch: int, api_version: int
) -> Callable[[str, int], None] | None:
    """What looks at each partition, if its epoch matters."""
    if member_epoch < 0 and group.is_empty:
        return None
    member = group.member(member_id)
    if api_version < _MEMBER_EPOCH_VERSION:
        raise CoordinatorError(Errors.UNSUPPORTED_VERSION)
    return _validate_epoch(group, member, member_epoch)


def validate_transactional_commit(group: StreamsGroup, request: TxnOffsetCommitRequest) -> None:
    """Producers know generations alone: a stale member epoch is an illegal one."""
    member_id, epoch = request.member_id, request.generation_id
    if epoch < 0 and group.is_empty:
        return
    if epoch == -1 and not member_id and request.group_instance_id is None:
        # A producer that does not say for which member it commits.
        return
    try:
        check = _validate_epoch(group, group.member(member_id), epoch)
        if check is not None:
            for topic in request.topics:
                for partition in topic.partitions:
                    check(topic.name, partition.partition_index)
    except CoordinatorError as refusal:
        if refusal.error is not Errors.STALE_MEMBER_EPOCH:
            raise
        raise CoordinatorError(Errors.ILLEGAL_GENERATION) from None


def _validate_epoch(
    group: StreamsGroup, member: StreamsMember, member_epoch: int
) -> Callable[[str, int], None] | None:
    if member_epoch == member.member_epoch:
        return None
    if member_epoch > member.member_epoch or group.topology is None:
        raise CoordinatorError(Errors.STALE_MEMBER_EPOCH)
    return _since(group.topology, member, member_epoch)


def _since(
    topology: StreamsTopology, member: StreamsMember, member_epoch: int
) -> Callable[[str, int], None]:
    by_topic = topology.by_source_topic

    def check(topic: str, partition: int) -> None:
        name = by_topic.get(topic, "")
        since = member.assigned.active.get(name, {}).get(partition)
        if since is None:
            since = member.pending_revocation.active.get(name, {}).get(partition)
        if since is None or member_epoch < since:
            raise CoordinatorError(Errors.STALE_MEMBER_EPOCH)

    return check


def validate_fetch(
    group: StreamsGroup, member_id: str | None, member_epoch: int, *, is_committed: bool
) -> None:
    if member_id is None and member_epoch < 0:
        return
    members = group.members
    member = members.committed(member_id or "") if is_committed else members.get(member_id or "")
    if member is None:
        raise CoordinatorError(Errors.UNKNOWN_MEMBER_ID)
    if member_epoch != member.member_epoch:
        raise CoordinatorError(Errors.STALE_MEMBER_EPOCH)
