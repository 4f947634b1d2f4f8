"""Remote segments for tests."""

from __future__ import annotations

from kaa.tier.metadata.model import (
    EpochStart,
    SegmentMetadata,
    SegmentState,
    SegmentUpdate,
    TopicIdPartition,
)
from kaa.wire.primitives import Uuid

PARTITION = TopicIdPartition(Uuid(b"t" * 16), "orders", 3)


def segment_id(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def segment(
    number: int, start: int, end: int, *epochs: tuple[int, int], txn_index: bool = True
) -> SegmentMetadata:
    """A copy that has begun; epochs are (number, first offset), 0 from the start if none."""
    starts = tuple(EpochStart(*one) for one in epochs) or (EpochStart(0, start),)
    return SegmentMetadata(
        PARTITION,
        segment_id(number),
        start,
        end,
        max_timestamp_ms=1_000 + end,
        broker_id=1,
        event_timestamp_ms=5,
        size_bytes=100,
        state=SegmentState.COPY_SEGMENT_STARTED,
        leader_epochs=starts,
        is_txn_index_empty=not txn_index,
    )


def update(number: int, state: SegmentState) -> SegmentUpdate:
    return SegmentUpdate(PARTITION, segment_id(number), 9, 2, state, b"custom")
