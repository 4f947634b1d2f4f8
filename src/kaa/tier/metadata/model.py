"""Remote segments, the states they go through, and the deletion of whole partitions.

A segment is announced before its first byte is copied and forgotten after its last object is
deleted, so that no object is ever without metadata:

    (unknown) -> COPY_SEGMENT_STARTED -> COPY_SEGMENT_FINISHED -> DELETE_SEGMENT_STARTED
                          |                                              ^        |
                          +----------------------------------------------+        v
                                                               DELETE_SEGMENT_FINISHED

Only COPY_SEGMENT_FINISHED can be read. A copy that a crash interrupted goes straight to deletion.
Every state may follow itself: an event that is delivered twice changes nothing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from kaa.wire.primitives import Uuid


class SegmentState(IntEnum):
    """Where a remote segment is between its announcement and its end; numbers are Kafka's."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class PartitionDeleteState(IntEnum):
    """How far the remote data of a deleted topic is gone; numbers are Kafka's."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


SEGMENT_TRANSITIONS: Final[dict[SegmentState | None, frozenset[SegmentState]]] = {
    None: frozenset({SegmentState.COPY_SEGMENT_STARTED}),
    SegmentState.COPY_SEGMENT_STARTED: frozenset(
        {SegmentState.COPY_SEGMENT_FINISHED, SegmentState.DELETE_SEGMENT_STARTED}
    ),
    SegmentState.COPY_SEGMENT_FINISHED: frozenset({SegmentState.DELETE_SEGMENT_STARTED}),
    SegmentState.DELETE_SEGMENT_STARTED: frozenset({SegmentState.DELETE_SEGMENT_FINISHED}),
    SegmentState.DELETE_SEGMENT_FINISHED: frozenset(),
}

PARTITION_TRANSITIONS: Final[dict[PartitionDeleteState | None, frozenset[PartitionDeleteState]]] = {
    None: frozenset({PartitionDeleteState.DELETE_PARTITION_MARKED}),
    PartitionDeleteState.DELETE_PARTITION_MARKED: frozenset(
        {PartitionDeleteState.DELETE_PARTITION_STARTED}
    ),
    PartitionDeleteState.DELETE_PARTITION_STARTED: frozenset(
        {PartitionDeleteState.DELETE_PARTITION_FINISHED}
    ),
    PartitionDeleteState.DELETE_PARTITION_FINISHED: frozenset(),
}


def can_follow(source: SegmentState | None, target: SegmentState) -> bool:
    """Whether a segment may go from `source`, None for one that is unknown, to `target`."""
    return source == target or target in SEGMENT_TRANSITIONS[source]


def deletion_can_follow(source: PartitionDeleteState | None, target: PartitionDeleteState) -> bool:
    """The same for the deletion of a partition."""
    return source == target or target in PARTITION_TRANSITIONS[source]


class TopicIdPartition(NamedTuple):
    """A partition of one life of a topic; a topic that is created again has another id."""

    topic_id: Uuid
    topic: str
    partition: int


class EpochStart(NamedTuple):
    """The first offset of a leader epoch within a segment."""

    epoch: int
    offset: int


class SegmentMetadata(NamedTuple):
    """A remote segment."""

    partition: TopicIdPartition
    segment_id: Uuid
    start_offset: int
    # The last offset that is in it.
    end_offset: int
    max_timestamp_ms: int
    # Who wrote this down, and when.
    broker_id: int
    event_timestamp_ms: int
    size_bytes: int
    state: SegmentState
    # At least one; epochs and offsets rise.
    leader_epochs: tuple[EpochStart, ...]
    # What the store wants to have back when the segment is read or deleted.
    custom_metadata: bytes | None = None
    is_txn_index_empty: bool = False

    def end_of_epoch(self, epoch: int) -> int:
        """The last offset of `epoch` in this segment."""
        for start in self.leader_epochs:
            if start.epoch > epoch:
                return start.offset - 1
        return self.end_offset

    def updated(self, update: SegmentUpdate) -> SegmentMetadata:
        return self._replace(
            broker_id=update.broker_id,
            event_timestamp_ms=update.event_timestamp_ms,
            custom_metadata=update.custom_metadata,
            state=update.state,
        )


class SegmentUpdate(NamedTuple):
    """A known segment has reached another state."""

    partition: TopicIdPartition
    segment_id: Uuid
    event_timestamp_ms: int
    broker_id: int
    state: SegmentState
    custom_metadata: bytes | None = None


class PartitionDeletion(NamedTuple):
    """The remote data of a partition is to go, or has gone."""

    partition: TopicIdPartition
    state: PartitionDeleteState
    event_timestamp_ms: int
    broker_id: int
