"""Rounds of a table."""

from __future__ import annotations

from kaa.spark.lake.plan import round_ends, round_ranges, sharing


def test_a_round_is_limited_and_never_goes_back() -> None:
    assert round_ends({0: 0, 1: 5}, {0: 100, 1: 5}, 1000) == {0: 100, 1: 5}
    assert round_ends({0: 0, 1: 0}, {0: 100, 1: 300}, 40) == {0: 10, 1: 30}
    # The last stable offset can be before what a reader of uncommitted data has seen.
    assert round_ends({0: 10}, {0: 7}, 1000) == {0: 10}


def test_ranges_are_split_only_when_worth_it() -> None:
    ranges = round_ranges("t", {0: 0, 1: 3}, {0: 1000, 1: 3}, 4, 100)
    assert [(one.partition.partition, one.start, one.end) for one in ranges] == [
        (0, 0, 250),
        (0, 250, 500),
        (0, 500, 750),
        (0, 750, 1000),
    ]
    assert sharing(ranges, 4, 100) == [[one] for one in ranges]
    assert len(round_ranges("t", {0: 0}, {0: 150}, 4, 100)) == 1


def test_partitions_with_few_records_share_tasks() -> None:
    starts = dict.fromkeys(range(1000), 0)
    ranges = round_ranges("t", starts, dict.fromkeys(range(1000), 5), 4, 1_000)
    assert len(ranges) == 1000
    assert [len(one) for one in sharing(ranges, 4, 50_000)] == [1000]
    groups = sharing(ranges, 4, 1_000)
    assert [len(one) for one in groups] == [250] * 4
    assert {one for some in groups for one in some} == set(ranges)
