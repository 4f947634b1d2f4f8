"""Random histories beside Kafka's own cache are in tests/conformance/tier."""

from __future__ import annotations

import pytest

from kaa.tier.metadata.cache import RemoteLogCache, UnknownSegmentError
from kaa.tier.metadata.model import SegmentMetadata, SegmentState
from tests.unit.tier.metadata.samples import segment, segment_id, update

FINISHED = SegmentState.COPY_SEGMENT_FINISHED
DELETING = SegmentState.DELETE_SEGMENT_STARTED
DELETED = SegmentState.DELETE_SEGMENT_FINISHED


def copied(*segments: SegmentMetadata) -> RemoteLogCache:
    cache = RemoteLogCache()
    for number, one in enumerate(segments, 1):
        assert one.segment_id == segment_id(number)
        assert cache.announce(one)
        assert cache.update(update(number, FINISHED))
    return cache


def found(cache: RemoteLogCache, epoch: int, offset: int) -> int | None:
    one = cache.find(epoch, offset)
    return None if one is None else int.from_bytes(one.segment_id, "big")


def test_only_what_is_copied_can_be_read() -> None:
    cache = RemoteLogCache()
    cache.announce(segment(1, 0, 9))
    assert found(cache, 0, 5) is None
    assert cache.highest_offset(0) is None
    cache.update(update(1, FINISHED))
    assert [found(cache, 0, offset) for offset in (0, 9, 10)] == [1, 1, None]
    assert found(cache, 1, 5) is None
    assert cache.highest_offset(0) == 9
    cache.update(update(1, DELETING))
    assert found(cache, 0, 5) is None
    assert [one.state for one in cache.segments_of_epoch(0)] == [DELETING]
    cache.update(update(1, DELETED))
    assert len(cache) == 0
    assert cache.segments_of_epoch(0) == []


def test_the_same_offset_in_two_epochs() -> None:
    cache = copied(segment(1, 0, 9, (0, 0)), segment(2, 5, 14, (1, 5)))
    assert found(cache, 0, 7) == 1
    assert found(cache, 1, 7) == 2
    assert found(cache, 1, 4) is None


def test_a_segment_with_several_epochs() -> None:
    cache = copied(segment(1, 0, 29, (0, 0), (2, 10), (3, 20)))
    assert [found(cache, 0, offset) for offset in (9, 10)] == [1, None]
    assert [found(cache, 2, offset) for offset in (9, 10, 19, 20)] == [None, 1, 1, None]
    assert [cache.highest_offset(epoch) for epoch in (0, 1, 2, 3)] == [9, None, 19, 29]


def test_a_later_copy_of_the_same_offsets_replaces_the_earlier() -> None:
    cache = copied(segment(1, 10, 90), segment(2, 5, 100))
    assert [found(cache, 0, offset) for offset in (5, 50, 95)] == [2, 2, 2]
    # It is listed until its objects are gone.
    assert segment_id(1) in cache
    assert [one.start_offset for one in cache.segments_of_epoch(0)] == [5, 10]


def test_a_shorter_copy_with_the_same_start_does_not_lose_the_longer() -> None:
    cache = copied(segment(1, 0, 50), segment(2, 0, 20))
    listed = [one.segment_id for one in cache.segments_of_epoch(0)]
    assert sorted(listed) == [segment_id(1), segment_id(2)]


def test_events_out_of_order_change_nothing() -> None:
    cache = copied(segment(1, 0, 9))
    assert not cache.announce(segment(1, 0, 9))
    assert not cache.update(update(1, DELETED))
    assert found(cache, 0, 5) == 1
    with pytest.raises(UnknownSegmentError):
        cache.update(update(7, FINISHED))
    with pytest.raises(ValueError, match="announced"):
        cache.update(update(1, SegmentState.COPY_SEGMENT_STARTED))
    with pytest.raises(ValueError, match="begins with"):
        cache.announce(segment(2, 0, 9)._replace(state=FINISHED))


def test_a_snapshot_restores_the_same_answers() -> None:
    cache = RemoteLogCache()
    # The longer one is finished first, and one with a higher end is long gone.
    for number, one in enumerate((segment(1, 10, 90), segment(2, 5, 100), segment(3, 101, 500)), 1):
        cache.announce(one)
        assert one.segment_id == segment_id(number)
    for number, state in (
        *((3, FINISHED), (3, DELETING), (3, DELETED)),
        *((2, FINISHED), (1, FINISHED)),
    ):
        assert cache.update(update(number, state))
    again = RemoteLogCache.of(cache.segments(), cache.tables())
    assert again.segments() == cache.segments()
    assert again.tables() == cache.tables()
    assert again.highest_offset(0) == cache.highest_offset(0) == 500
    for offset in range(0, 120, 5):
        assert again.find(0, offset) == cache.find(0, offset)
    assert again.segments_of_epoch(0) == cache.segments_of_epoch(0)
