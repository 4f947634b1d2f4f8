"""Which segment an offset is read from, as the broker itself finds it, and how tasks are cut."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from kaa.model.topics import TopicPartition
from kaa.spark.plan import OffsetRange
from kaa.spark.tier.plan import (
    OFFSET_MAX,
    ChainEpoch,
    Piece,
    PlannedPart,
    parts_of,
    pieces_of,
    runs_of,
    split_parts,
    tiered_end,
)
from kaa.tier.metadata.cache import RemoteLogCache
from kaa.tier.metadata.model import SegmentState
from tests.unit.tier.metadata.samples import segment, update

NAME = TopicPartition("orders", 3)
ONE_EPOCH = [ChainEpoch(0, 0, OFFSET_MAX)]


def cache_of(*segments: tuple[int, int, tuple[tuple[int, int], ...]]) -> RemoteLogCache:
    """Copied segments by first offset, last offset and epochs."""
    cache = RemoteLogCache()
    for number, (start, end, epochs) in enumerate(segments, 1):
        assert cache.announce(segment(number, start, end, *epochs))
        assert cache.update(update(number, SegmentState.COPY_SEGMENT_FINISHED))
    return cache


def shown(pieces: list[Piece]) -> list[tuple[int, int, int]]:
    """Number of the segment, first offset and end of each piece."""
    return [(int.from_bytes(one.segment.segment_id, "big"), one.start, one.end) for one in pieces]


def test_a_range_is_clipped_to_the_segments_that_hold_it() -> None:
    cache = cache_of((0, 99, ()), (100, 199, ()), (300, 399, ()))
    found = pieces_of(cache, ONE_EPOCH, 50, 350)
    assert shown(found) == [(1, 50, 100), (2, 100, 200), (3, 300, 350)]
    assert [len(run) for run in runs_of(found)] == [2, 1]
    assert tiered_end(found, 50) == 200
    assert tiered_end(found, 20) == 20
    assert not found[0].is_whole
    assert found[1].is_whole
    assert pieces_of(cache, ONE_EPOCH, 200, 300) == []


def test_copies_of_two_leaders_that_overlap_are_read_once() -> None:
    cache = cache_of((0, 99, ()), (60, 150, ()), (120, 180, ()))
    assert shown(pieces_of(cache, ONE_EPOCH, 0, 1000)) == [
        (1, 0, 100),
        (2, 100, 151),
        (3, 151, 181),
    ]


def test_what_an_unclean_election_lost_is_not_read() -> None:
    # The first leader copied 0 to 199, of which 80 to 199 were lost; epoch 1 was its too.
    cache = cache_of((0, 199, ((0, 0), (1, 100))), (80, 250, ((2, 80),)))
    chain = [ChainEpoch(0, 0, 80), ChainEpoch(2, 80, 400)]
    assert shown(pieces_of(cache, chain, 0, 1000)) == [(1, 0, 80), (2, 80, 251)]
    # One segment with two epochs that both count is one piece.
    whole = [ChainEpoch(0, 0, 100), ChainEpoch(1, 100, 300)]
    assert shown(pieces_of(cache, whole, 0, 1000)) == [(1, 0, 200)]


def test_what_is_not_finished_or_is_being_deleted_is_not_read() -> None:
    cache = cache_of((0, 99, ()), (100, 199, ()))
    cache.announce(segment(9, 200, 299))
    cache.update(update(1, SegmentState.DELETE_SEGMENT_STARTED))
    assert shown(pieces_of(cache, ONE_EPOCH, 0, 1000)) == [(2, 100, 200)]


@pytest.mark.parametrize("seed", range(20))
def test_every_offset_comes_from_a_segment_of_its_own_epoch(seed: int) -> None:
    """Random leaders copy and lose their ends; the broker finds each offset by epoch and offset."""
    random = Random(seed)
    starts = [0]
    segments: list[tuple[int, int, tuple[tuple[int, int], ...]]] = []
    chain = [(0, 0)]
    end = 0
    for epoch in range(5):
        if epoch:
            # The next leader has less than the last one wrote.
            lost = max(0, end - random.randrange(60))
            chain = [one for one in chain if one[1] < lost] + [(epoch, lost)]
            end = lost
            starts = [one for one in starts if one < lost] or [0]
        for _ in range(random.randrange(1, 4)):
            behind = end + random.randrange(20, 60)
            base = starts[-1] if random.random() < 0.3 else end
            inside = [(number, max(start, base)) for number, start in chain if start < behind]
            kept = {offset: (number, offset) for number, offset in inside}
            segments.append((base, behind - 1, tuple(kept.values())))
            starts.append(base)
            end = behind
    cache = cache_of(*segments)
    ends = [start for _, start in chain[1:]] + [end]
    known = [
        ChainEpoch(epoch, start, behind) for (epoch, start), behind in zip(chain, ends, strict=True)
    ]
    pieces = pieces_of(cache, known, 0, end + 10)
    assert all(one.end <= two.start for one, two in pairwise(pieces))
    held = {offset: piece for piece in pieces for offset in range(piece.start, piece.end)}
    for epoch, start, behind in known:
        for offset in range(start, behind):
            if cache.find(epoch, offset) is not None:
                found = held[offset].segment
                assert offset <= found.end_of_epoch(epoch)
                assert dict(found.leader_epochs)[epoch] <= offset
    assert all(offset < end for offset in held)


def whole(start: int, end: int) -> OffsetRange:
    return OffsetRange(NAME, start, end)


def test_tasks_are_cut_by_bytes() -> None:
    # Each segment of the samples has a hundred bytes.
    cache = cache_of((0, 99, ()), (100, 199, ()), (200, 299, ()), (400, 499, ()))
    pieces = pieces_of(cache, ONE_EPOCH, 0, 600)
    parts = parts_of(whole(0, 600), pieces, 250)
    assert [(one.range.start, one.range.end, len(one.pieces)) for one in parts] == [
        (0, 200, 2), (200, 300, 1), (300, 400, 0), (400, 500, 1), (500, 600, 0),
    ]  # fmt: skip
    small = parts_of(whole(0, 100), pieces_of(cache, ONE_EPOCH, 0, 100), 30)
    assert [(one.range.start, one.range.end) for one in small] == [
        (0, 25), (25, 50), (50, 75), (75, 100),
    ]  # fmt: skip
    assert parts_of(whole(300, 350), [], 100) == [PlannedPart(whole(300, 350))]


def test_tasks_are_cut_further_as_the_query_asks() -> None:
    cache = cache_of((0, 99, ()), (100, 199, ()))
    parts = parts_of(whole(0, 250), pieces_of(cache, ONE_EPOCH, 0, 250), 1000)
    cut = split_parts(parts, None, 60)
    assert [(one.range.start, one.range.end) for one in cut] == [
        (0, 50), (50, 100), (100, 150), (150, 200), (200, 250),
    ]  # fmt: skip
    assert [shown(list(one.pieces)) for one in cut] == [
        [(1, 0, 50)], [(1, 50, 100)], [(2, 100, 150)], [(2, 150, 200)], [],
    ]  # fmt: skip
    assert [one.range.size for one in split_parts(parts, 5, None)] == [50] * 5
