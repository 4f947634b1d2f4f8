"""OffsetFetch: what a group committed, for some partitions or for all.

A client that asks for stable offsets is served from the newest state, and its answer waits until
all of that is committed; partitions with an offset in an open transaction are refused, so that the
client asks again. Everybody else is served from committed state at once.

An offset that was committed for a topic of the same name which has been deleted since is not an
offset of this topic: both ids are compared where both are known (KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.streams.commit import validate_fetch
from kaa.coordinators.group.streams.group import StreamsGroup
from kaa.limits import RECORDS_PER_PIECE
from kaa.wire.errors import Errors
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.coordinators.group.machine import GroupMachine
    from kaa.coordinators.group.offsets.committed import CommittedOffset
    from kaa.coordinators.timeline import TimelineDict
    from kaa.model.pieces import Pieces
    from kaa.model.topics import PartitionName
    from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequestGroup
    from kaa.wire.primitives import Uuid

    Show = Callable[[int, CommittedOffset | None, Errors], "Shown"]

Shown = TypeVar("Shown")


class FetchedTopic(NamedTuple, Generic[Shown]):
    """What a group committed for a topic."""

    name: str
    topic_id: Uuid
    partitions: list[Shown]


def fetch_offsets(
    machine: GroupMachine,
    request: OffsetFetchRequestGroup,
    show: Show[Shown],
    *,
    is_stable: bool,
) -> Pieces[list[FetchedTopic[Shown]]]:
    """The offsets of a group, of all partitions if the request names none: what `show` makes of
    the number of each, its offset if there is one, and the error.
    """
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
    fetched: list[FetchedTopic[Shown]] = []
    count = 0
    for topic, topic_id, partitions in asked:
        found: list[Shown] = []
        fetched.append(FetchedTopic(topic, topic_id, found))
        # A topic costs about as much as a partition, and may be named without any.
        count += 1
        if count % RECORDS_PER_PIECE == 0:
            yield
        for partition in partitions:
            name = (topic, partition)
            if name in unstable:
                found.append(show(partition, None, Errors.UNSTABLE_OFFSET_COMMIT))
            elif offsets is None:
                found.append(show(partition, None, Errors.NONE))
            else:
                committed = offsets.get(name) if is_stable else offsets.committed(name)
                if committed is not None and _is_other_topic(committed.topic_id, topic_id):
                    committed = None
                found.append(show(partition, committed, Errors.NONE))
            count += 1
            if count % RECORDS_PER_PIECE == 0:
                yield
    return fetched


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
