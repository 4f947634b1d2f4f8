"""OffsetFetch: what a group committed, for some partitions or for all.

A client that asks for stable offsets is served from the newest state, and its answer waits until
all of that is committed; partitions with an offset in an open transaction are refused, so that the
client asks again. Everybody else is served from committed state at once.

An offset that was committed for a topic of the same name which has been deleted since is not an
offset of this topic: both ids are compared where both are known (KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.streams.commit import validate_fetch
from kaa.coordinators.group.streams.group import StreamsGroup
from kaa.limits import RECORDS_PER_PIECE
from kaa.wire.errors import Errors
from kaa.wire.messages.k09_offset_fetch import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.coordinators.group.machine import GroupMachine
    from kaa.coordinators.group.offsets.committed import CommittedOffset, PartitionName
    from kaa.coordinators.timeline import TimelineDict
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequestGroup
    from kaa.wire.primitives import Uuid

_NO_OFFSET: Final = -1


def fetch_offsets(
    machine: GroupMachine, request: OffsetFetchRequestGroup, *, is_stable: bool
) -> Pieces[OffsetFetchResponseGroup]:
    """The offsets of a group; of all partitions if the request names none."""
    group_id = request.group_id
    groups, offsets = machine.groups, machine.offsets.of_group(request.group_id)
    group = groups.get(group_id) if is_stable else groups.committed(group_id)
    if isinstance(group, ConsumerGroup):
        group.validate_offset_fetch(
            request.member_id, request.member_epoch, is_committed=not is_stable
        )
    elif isinstance(group, StreamsGroup):
        validate_fetch(group, request.member_id, request.member_epoch, is_committed=not is_stable)
    if group is None:
        offsets = None
    asked: Iterable[tuple[str, Uuid, Iterable[int]]]
    if request.topics is not None:
        asked = ((one.name, one.topic_id, one.partition_indexes) for one in request.topics)
    else:
        asked = _all_partitions(offsets, is_stable=is_stable)
    unstable = machine.offsets.pending_of(group_id) if is_stable else set()
    answer = OffsetFetchResponseGroup(group_id=group_id, topics=[])
    count = 0
    for topic, topic_id, partitions in asked:
        found: list[OffsetFetchResponsePartitions] = []
        answer.topics.append(
            OffsetFetchResponseTopics(name=topic, topic_id=topic_id, partitions=found)
        )
        for partition in partitions:
            name = (topic, partition)
            if name in unstable:
                found.append(_partition(partition, None, Errors.UNSTABLE_OFFSET_COMMIT))
            elif offsets is None:
                found.append(_partition(partition, None))
            else:
                committed = offsets.get(name) if is_stable else offsets.committed(name)
                if committed is not None and _is_other_topic(committed.topic_id, topic_id):
                    committed = None
                found.append(_partition(partition, committed))
            count += 1
            if count % RECORDS_PER_PIECE == 0:
                yield
    return answer


def _all_partitions(
    offsets: TimelineDict[PartitionName, CommittedOffset] | None, *, is_stable: bool
) -> list[tuple[str, Uuid, Iterable[int]]]:
    by_topic: dict[str, list[int]] = {}
    if offsets is not None:
        for (topic, partition), _ in offsets.items() if is_stable else offsets.committed_items():
            by_topic.setdefault(topic, []).append(partition)
    return [(topic, UUID_ZERO, partitions) for topic, partitions in by_topic.items()]


def _is_other_topic(one: Uuid, other: Uuid) -> bool:
    return UUID_ZERO not in {one, other} and one != other


def _partition(
    index: int, committed: CommittedOffset | None, error: Errors = Errors.NONE
) -> OffsetFetchResponsePartitions:
    if committed is None:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=error
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )
