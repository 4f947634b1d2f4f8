"""OffsetFetch: what a group committed, for some partitions or for all.

A client that asks for stable offsets is served from the newest state, and its answer waits until
all of that is committed; partitions with an offset in an open transaction are refused, so that the
client asks again. Everybody else is served from committed state at once.

An offset that was committed for a topic of the same name which has been deleted since is not an
offset of this topic: both ids are compared where both are known (KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.consumer_group import ConsumerGroup
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
    from kaa.coordinators.group.offsets import CommittedOffset
    from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequestGroup
    from kaa.wire.primitives import Uuid

_NO_OFFSET: Final = -1


def fetch_offsets(
    machine: GroupMachine, request: OffsetFetchRequestGroup, *, is_stable: bool
) -> OffsetFetchResponseGroup:
    """The offsets of a group; of all partitions if the request names none."""
    group_id = request.group_id
    groups, offsets = machine.groups, machine.offsets.of_group(request.group_id)
    group = groups.get(group_id) if is_stable else groups.committed(group_id)
    if isinstance(group, ConsumerGroup):
        group.validate_offset_fetch(
            request.member_id, request.member_epoch, is_committed=not is_stable
        )
    is_known = group is not None and offsets is not None

    def find(topic: str, partition: int) -> CommittedOffset | None:
        if not is_known or offsets is None:
            return None
        name = (topic, partition)
        return offsets.get(name) if is_stable else offsets.committed(name)

    def answer(topic: str, topic_id: Uuid, partitions: Iterable[int]) -> OffsetFetchResponseTopics:
        found = OffsetFetchResponseTopics(name=topic, topic_id=topic_id, partitions=[])
        for partition in partitions:
            if is_stable and machine.offsets.is_pending(group_id, topic, partition):
                one = _partition(partition, None, Errors.UNSTABLE_OFFSET_COMMIT)
            else:
                committed = find(topic, partition)
                if committed is not None and _is_other_topic(committed.topic_id, topic_id):
                    committed = None
                one = _partition(partition, committed)
            found.partitions.append(one)
        return found

    if request.topics is not None:
        topics = [
            answer(topic.name, topic.topic_id, topic.partition_indexes) for topic in request.topics
        ]
        return OffsetFetchResponseGroup(group_id=group_id, topics=topics)
    by_topic: dict[str, list[int]] = {}
    if is_known and offsets is not None:
        for (topic, partition), _ in offsets.items() if is_stable else offsets.committed_items():
            by_topic.setdefault(topic, []).append(partition)
    topics = [answer(topic, UUID_ZERO, partitions) for topic, partitions in by_topic.items()]
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics)


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
