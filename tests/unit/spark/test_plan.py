"""Which offsets a batch reads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kaa.model.topics import TopicPartition
from kaa.spark.offsets import PartitionOffsets, StreamOffset
from kaa.spark.plan import (
    Density,
    OffsetRange,
    batch_ranges,
    least,
    limit_bytes,
    limit_rows,
    ranges_between,
    split,
    waiting_rows,
)

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def test_rows_are_shared_in_proportion_to_what_waits() -> None:
    start = {T0: 0, T1: 100, T2: 5}
    latest = {T0: 300, T1: 200, T2: 5}
    assert limit_rows(start, latest, 40) == {T0: 30, T1: 110, T2: 5}


def test_a_small_partition_gets_one_row_at_least() -> None:
    assert limit_rows({T0: 0, T1: 0}, {T0: 10_000, T1: 1}, 10) == {T0: 9, T1: 1}


def test_a_limit_above_what_waits_takes_everything() -> None:
    assert limit_rows({T0: 0}, {T0: 10}, 10) == {T0: 10}


@st.composite
def backlogs(draw: st.DrawFn) -> tuple[PartitionOffsets, PartitionOffsets]:
    count = draw(st.integers(1, 6))
    start: PartitionOffsets = {}
    latest: PartitionOffsets = {}
    for number in range(count):
        partition = TopicPartition("t", number)
        first = draw(st.integers(0, 1_000))
        if draw(st.booleans()):
            start[partition] = first
        latest[partition] = first + draw(st.integers(0, 100_000))
    return start, latest


@given(backlogs(), st.integers(1, 200_000))
def test_a_limited_batch_goes_on_and_stays_inside(
    backlog: tuple[PartitionOffsets, PartitionOffsets], rows_max: int
) -> None:
    start, latest = backlog
    end = limit_rows(start, latest, rows_max)
    assert end.keys() == latest.keys()
    for partition, last in latest.items():
        first = start.get(partition, 0)
        assert first <= end[partition] <= last
        assert end[partition] > first or last == first
    assert waiting_rows(start, end) <= rows_max + len(latest)


def test_bytes_are_shared_too_and_a_batch_is_never_cut() -> None:
    start = {T0: 0, T1: 0}
    latest = {T0: 1000, T1: 1000}
    densities = {T0: Density(10.0, 0), T1: Density(30.0, 0)}
    assert limit_bytes(start, latest, densities, 4_000) == {T0: 100, T1: 100}
    densities = {T0: Density(10.0, 500), T1: Density(30.0, 2_000)}
    assert limit_bytes(start, latest, densities, 4_000) == {T0: 500, T1: 1000}
    assert limit_bytes(start, latest, densities, 40_000) == latest


@given(backlogs(), st.integers(1, 10_000_000), st.floats(0, 5_000))
def test_a_batch_limited_by_bytes_goes_on_and_stays_inside(
    backlog: tuple[PartitionOffsets, PartitionOffsets], bytes_max: int, density: float
) -> None:
    start, latest = backlog
    densities = {partition: Density(density, 0) for partition in latest}
    end = limit_bytes(start, latest, densities, bytes_max)
    for partition, last in latest.items():
        first = start.get(partition, 0)
        assert first <= end[partition] <= last
        assert end[partition] > first or last == first


def test_the_smaller_of_two_limits_counts() -> None:
    assert least({T0: 5, T1: 9}, {T0: 6, T1: 7}) == {T0: 5, T1: 7}


def test_the_first_batch_begins_at_the_start_that_it_carries() -> None:
    end = StreamOffset({T0: 9, T1: 4}, {T0: 7, T1: 4})
    planned = ranges_between(None, end)
    assert planned.ranges == [OffsetRange(T0, 7, 9)]
    assert planned.losses == []


def test_later_batches_begin_where_the_last_one_ended() -> None:
    planned = ranges_between(StreamOffset({T0: 3}, {T0: 1}), StreamOffset({T0: 9, T1: 2}))
    assert planned.ranges == [OffsetRange(T0, 3, 9), OffsetRange(T1, 0, 2)]
    assert planned.losses == []


def test_partitions_that_are_gone_and_ends_that_go_back_are_losses() -> None:
    planned = ranges_between(StreamOffset({T0: 3, T1: 9}), StreamOffset({T1: 4, T2: 1}))
    assert planned.ranges == [OffsetRange(T2, 0, 1)]
    assert planned.losses == [
        "partitions are gone: t-0",
        "t-1 ends at offset 4, and 9 was reached before",
    ]


def test_a_topic_that_was_created_again_begins_at_0() -> None:
    planned = ranges_between(
        StreamOffset({T0: 30}, topic_ids={"t": "old"}),
        StreamOffset({T0: 4}, topic_ids={"t": "new"}),
    )
    assert planned.ranges == [OffsetRange(T0, 0, 4)]
    assert planned.losses == ["topic 't' was deleted and created again"]


def test_offsets_without_ids_match_any() -> None:
    planned = ranges_between(StreamOffset({T0: 3}), StreamOffset({T0: 4}, topic_ids={"t": "new"}))
    assert planned.ranges == [OffsetRange(T0, 3, 4)]
    assert planned.losses == []


def test_the_ranges_of_a_batch_query() -> None:
    assert batch_ranges({T0: 3, T1: 5, T2: 9}, {T0: 4, T1: 5, T2: 2}) == [OffsetRange(T0, 3, 4)]


def test_splits() -> None:
    whole = [OffsetRange(T0, 0, 100), OffsetRange(T1, 0, 300), OffsetRange(T2, 5, 5)]
    assert split(whole, None, None) == whole[:2]
    assert split(whole, 2, None) == whole[:2]
    assert [len([p for p in split(whole, 8, None) if p.partition is t]) for t in (T0, T1)] == [2, 6]
    assert max(piece.size for piece in split(whole, None, 30)) <= 30
    # Of two counts the larger is used.
    assert len(split(whole, 8, 10)) == 40
    assert len(split(whole, 80, 300)) == 80


@given(
    st.lists(st.integers(0, 10_000), min_size=1, max_size=8),
    st.none() | st.integers(1, 100),
    st.none() | st.integers(1, 5_000),
)
def test_pieces_cover_the_ranges_exactly(
    sizes: list[int], min_partitions: int | None, max_records: int | None
) -> None:
    whole = [OffsetRange(TopicPartition("t", n), 7, 7 + size) for n, size in enumerate(sizes)]
    pieces = split(whole, min_partitions, max_records)
    for one in whole:
        position = one.start
        for piece in pieces:
            if piece.partition == one.partition:
                assert piece.start == position
                assert piece.size > 0
                assert max_records is None or piece.size <= max_records
                position = piece.end
        assert position == one.end
