from __future__ import annotations

import pytest

from kaa.client.consumer.records import ConsumerRecord
from kaa.testing.differences import difference, fits, match, shown, shown_record

RECORDS = [
    ConsumerRecord("orders", 0, offset, 1000, None, value)
    for offset, value in enumerate((b"a", b"b"))
]
FULL = ConsumerRecord("orders", 2, 5, 1000, b"k", b"v", (("h", b"1"),))


@pytest.mark.parametrize(
    "expected",
    [
        "v",
        b"v",
        ("k", "v"),
        (..., b"v"),
        {},
        {"key": "k", "value": ..., "partition": 2, "offset": 5, "timestamp_ms": 1000},
        {"headers": [("h", "1")]},
        lambda record: record.value.isalpha(),
    ],
)
def test_what_fits(expected: object) -> None:
    assert fits(expected, FULL)


@pytest.mark.parametrize(
    "expected",
    ["w", None, ("j", "v"), (None, "v"), {"partition": 1}, {"headers": []}, lambda _: False],
)
def test_what_does_not_fit(expected: object) -> None:
    assert not fits(expected, FULL)


def test_what_describes_no_record() -> None:
    with pytest.raises(TypeError, match="describes no record"):
        fits(1, FULL)
    with pytest.raises(TypeError, match="'val'"):
        fits({"val": 1}, FULL)


def test_order() -> None:
    assert match(["a", "b"], RECORDS, in_order=True)
    assert not match(["b", "a"], RECORDS, in_order=True)
    assert match(["b", "a"], RECORDS, in_order=False)
    assert not match(["a", "a"], RECORDS, in_order=False)
    assert not match(["a"], RECORDS, in_order=False)


def test_difference_in_order() -> None:
    assert difference("topic t", ["b", "c"], RECORDS, in_order=True).splitlines() == [
        "topic t: 2 records expected, 2 found",
        "+ 'a'  [partition 0, offset 0]",
        "  'b'  [partition 0, offset 1]",
        "- 'c'",
    ]


def test_difference_in_any_order() -> None:
    assert difference("topic t", ["b", "c"], RECORDS, in_order=False).splitlines() == [
        "topic t: 2 records expected in any order, 2 found",
        "  'b'  [partition 0, offset 1]",
        "- 'c'",
        "+ 'a'  [partition 0, offset 0]",
    ]


def test_long_values_are_cut() -> None:
    assert shown(b"x" * 1000).endswith("... (1002 characters)")
    assert shown(("k", ...)) == "('k', ...)"
    assert shown(len) == "len"


def test_a_record_in_a_line() -> None:
    record = ConsumerRecord("orders", 1, 2, 3, b"key", b"\xff", (("h", b"v"),))
    assert shown_record(record) == "('key', b'\\xff') (('h', b'v'),)  [partition 1, offset 2]"
