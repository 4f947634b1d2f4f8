from __future__ import annotations

import pytest

from kaa.cli.offset_range import Point, ReadRange, parse_range

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", ReadRange(Point("start"))),
        ("beginning", ReadRange(Point("start"))),
        ("earliest", ReadRange(Point("start"))),
        ("latest", ReadRange(Point("end"))),
        ("beginning:5", ReadRange(Point("start"), Point("offset", 5))),
        ("@2023-11-14T22:13:20Z:latest", ReadRange(Point("time", NOW_MS), Point("end"))),
        ("+5", ReadRange(Point("start", 5))),
        ("-5", ReadRange(Point("end", -5))),
        ("5:end", ReadRange(Point("offset", 5), Point("end"))),
        ("-5:-2", ReadRange(Point("end", -5), Point("end", -2))),
        ("@-10m", ReadRange(Point("time", NOW_MS - 600_000))),
        (
            "@-2h:-1h",
            ReadRange(Point("time", NOW_MS - 7_200_000), Point("time", NOW_MS - 3_600_000)),
        ),
        ("@2023-11-14T22:13:20Z", ReadRange(Point("time", NOW_MS))),
        ("@2023-11-15T00:13:20+02:00:end", ReadRange(Point("time", NOW_MS), Point("end"))),
        ("@today", ReadRange(Point("time", NOW_MS - 80_000_000))),
        (
            "@yesterday:today",
            ReadRange(Point("time", NOW_MS - 166_400_000), Point("time", NOW_MS - 80_000_000)),
        ),
        ("@2023-11-14", ReadRange(Point("time", NOW_MS - 80_000_000))),
    ],
)
def test_grammar(text: str, expected: ReadRange) -> None:
    assert parse_range(text, NOW_MS) == expected


@pytest.mark.parametrize("text", ["", ":", "x", "1:", "@", "@soon", "@5", "--1", "@" + "9" * 20])
def test_what_is_no_offset(text: str) -> None:
    with pytest.raises(ValueError, match="is not an offset"):
        parse_range(text, NOW_MS)


@pytest.mark.parametrize("text", ["5:3", "-2:-5", "@-1h:-2h"])
def test_ranges_do_not_go_backwards(text: str) -> None:
    with pytest.raises(ValueError, match="ends before it starts"):
        parse_range(text, NOW_MS)


def test_offsets_outside_the_partition_are_remarked_on() -> None:
    assert Point("offset", 99).remark(2, 8) == "offset 99 is outside 2 to 8; 8"
    assert Point("offset", 1).remark(2, 8) == "offset 1 is outside 2 to 8; 2"
    assert [Point("offset", value).remark(2, 8) for value in (2, 8)] == [None, None]
    assert Point("end", -99).remark(2, 8) is None


def test_points_stay_inside_the_partition() -> None:
    assert Point("start", 3).offset(10, 20, None) == 13
    assert Point("end", -100).offset(10, 20, None) == 10
    assert Point("offset", 99).offset(10, 20, None) == 20
    assert Point("time", 5).offset(10, 20, None) == 20
    assert Point("time", 5).offset(10, 20, 12) == 12
