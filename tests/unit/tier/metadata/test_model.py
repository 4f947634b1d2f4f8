from __future__ import annotations

import itertools

from kaa.tier.metadata.model import (
    PartitionDeleteState,
    SegmentState,
    can_follow,
    deletion_can_follow,
)
from tests.unit.tier.metadata.samples import segment, update


def test_transitions_of_segments() -> None:
    legal = {
        (source, target)
        for source, target in itertools.product((None, *SegmentState), SegmentState)
        if can_follow(source, target)
    }
    started, finished, deleting, deleted = SegmentState
    assert legal == {
        (None, started),
        (started, finished),
        (started, deleting),
        (finished, deleting),
        (deleting, deleted),
        *((state, state) for state in SegmentState),
    }


def test_transitions_of_deletions() -> None:
    legal = {
        (source, target)
        for source, target in itertools.product((None, *PartitionDeleteState), PartitionDeleteState)
        if deletion_can_follow(source, target)
    }
    marked, started, finished = PartitionDeleteState
    assert legal == {
        (None, marked),
        (marked, started),
        (started, finished),
        *((state, state) for state in PartitionDeleteState),
    }


def test_where_an_epoch_ends_in_a_segment() -> None:
    one = segment(1, 10, 39, (2, 10), (4, 20), (5, 30))
    assert [one.end_of_epoch(epoch) for epoch in (2, 4, 5)] == [19, 29, 39]


def test_an_update_keeps_what_it_does_not_name() -> None:
    one = segment(1, 10, 39)
    changed = one.updated(update(1, SegmentState.COPY_SEGMENT_FINISHED))
    assert changed == one._replace(
        state=SegmentState.COPY_SEGMENT_FINISHED,
        broker_id=2,
        event_timestamp_ms=9,
        custom_metadata=b"custom",
    )
