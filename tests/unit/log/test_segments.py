"""The ordered segments of a log."""

from __future__ import annotations

from kaa.log.config import LogConfig
from kaa.log.segment import Segment
from kaa.log.segments import Segments
from kaa.log.sim_files import SimFiles


def _segments(*bases: int) -> Segments:
    segments = Segments()
    for base in bases:
        segments.add(Segment(SimFiles(), "/d", base, LogConfig()))
    return segments


def _bases(found: list[Segment]) -> list[int]:
    return [segment.base_offset for segment in found]


def test_order_does_not_depend_on_insertion() -> None:
    segments = _segments(20, 0, 10)
    assert segments.base_offsets == [0, 10, 20]
    assert _bases(list(segments)) == [0, 10, 20]
    assert _bases(list(segments.newest_first())) == [20, 10, 0]
    assert (segments.first.base_offset, segments.active.base_offset) == (0, 20)


def test_neighbours() -> None:
    segments = _segments(5, 10, 20)
    floors = [segments.floor(offset) for offset in (4, 5, 9, 10, 99)]
    assert [s and s.base_offset for s in floors] == [None, 5, 5, 10, 20]
    highers = [segments.higher(offset) for offset in (4, 5, 19, 20)]
    assert [s and s.base_offset for s in highers] == [5, 10, 20, None]


def test_ranges_start_with_the_segment_that_may_hold_their_start() -> None:
    segments = _segments(5, 10, 20)
    assert _bases(segments.between(12, 20)) == [10]
    assert _bases(segments.between(12, 21)) == [10, 20]
    assert _bases(segments.between(0, 100)) == [5, 10, 20]
    assert segments.between(0, 5) == []


def test_replacing_and_removing() -> None:
    segments = _segments(0, 10)
    other = Segment(SimFiles(), "/d", 10, LogConfig())
    other.size = 7
    segments.add(other)
    assert segments.active is other
    assert segments.size_in_bytes == 7
    for segment in segments:
        segments.remove(segment)
    assert len(segments) == 0
