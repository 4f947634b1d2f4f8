"""What conditions say about partitions, offsets and times."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from math import inf

import pytest

from kaa.spark.filters import Bounds, Span, bounds_of, names_in

NOTHING = Bounds()


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("offset >= 5", Bounds(offset=Span(5))),
        ("OFFSET > 5 AND `offset` <= 9", Bounds(offset=Span(6, 10))),
        ("5 <= offset and 9 > offset", Bounds(offset=Span(5, 9))),
        ("offset between 5 and 9 and price > 2", Bounds(offset=Span(5, 10))),
        ("price between 1 and 2 and offset = 7", Bounds(offset=Span(7, 8))),
        ("offset > -1", Bounds(offset=Span(0))),
        ("(offset >= 5 and (partition == 1)) and x", Bounds(None, Span(1, 2), Span(5))),
        ("partition in (1, 3)", Bounds(frozenset({1, 3}))),
        ("partition in (1, 3) and partition in (3, 4)", Bounds(frozenset({3}))),
        ("partition < 2", Bounds(partition=Span(high=2))),
        ("name = 'a and offset = 1' and offset = 2", Bounds(offset=Span(2, 3))),
        ("name = 'it''s' and offset = 2", Bounds(offset=Span(2, 3))),
        ("(a = 1 or b = 2) and offset = 2", Bounds(offset=Span(2, 3))),
        ("a in (select offset from t where offset = 1) and offset = 2", Bounds(offset=Span(2, 3))),
    ],
)
def test_what_is_understood(where: str, expected: Bounds) -> None:
    assert bounds_of(where, UTC) == expected


@pytest.mark.parametrize(
    "where",
    [
        "offset >= 5 or price > 2",
        "a and offset = 5 or b",
        "not offset >= 5",
        "not (offset >= 5)",
        "not a and not offset = 5",
        "offset <> 5",
        "offset = partition",
        "offset = 5 + 1",
        "offset + 1 = 5",
        "1 + offset = 5",
        "t.offset = 5",
        "offset = 5.5",
        "offset = 5L",
        "offset = '5'",
        "offset = -(5)",
        "offset not between 1 and 2",
        "offset between 1 and x",
        "offset is null",
        "partition not in (1)",
        "partition in ()",
        "partition in (1, x)",
        "partition in (1 2)",
        "case when a and offset = 5 and b then true else false end",
        "array(a and offset = 5 and b)[0]",
        "name = 'a\\' and offset = 5 and x = \\''",
        "a /* ' */ and offset = 5 and b /* ' */",
        "a -- '\n and offset = 5",
        "offset <=> 5",
        "timestamp > 5",
        "timestamp > '2026-02-31'",
        "timestamp > 'yesterday'",
        "timestamp > date '2026-01-01'",
        "'2026-01-01' > '2026-01-02'",
        "offset",
        "§",
        "",
        "(offset = 5",
    ],
)
def test_what_is_left_to_spark(where: str) -> None:
    assert bounds_of(where, UTC) == NOTHING


def test_times() -> None:
    day = 86_400_000
    assert bounds_of("timestamp >= '1970-01-02'", UTC).timestamp == Span(day)
    assert bounds_of("timestamp < timestamp '1970-01-02 00:00:00.0005Z'", None).timestamp == Span(
        high=day + 1
    )
    assert bounds_of("timestamp <= '1970-01-02T01:00:00+01:00'", None).timestamp == Span(
        -inf, day + 1
    )
    assert bounds_of("timestamp > '1970-01-02'", None) == NOTHING
    east = timezone(timedelta(hours=1))
    assert bounds_of("'1970-01-02 01:00' <= timestamp", east).timestamp == Span(day)


def test_whether_a_partition_can_have_rows() -> None:
    bounds = bounds_of("partition in (1, 2) and partition > 1", UTC)
    assert [bounds.has(number) for number in range(4)] == [False, False, True, False]
    assert NOTHING.has(7)


def test_names() -> None:
    assert names_in("upper(Name) = 'x' and `a b`.c > 1e3") == {"upper", "name", "and", "a b", "c"}
    assert names_in('"a""b" = 1') == {'a"b'}
    assert names_in("count(*)") is None
    assert names_in("a -- b") is None
