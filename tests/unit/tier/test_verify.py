"""Offsets that nobody has; the rest runs against a real store in tests/cli/test_tier.py."""

from __future__ import annotations

from kaa.tier.metadata.model import SegmentMetadata, SegmentState
from kaa.tier.verify import TierProblem, gaps
from tests.unit.tier.metadata.samples import PARTITION, segment_id


def segment(start: int, end: int) -> SegmentMetadata:
    state = SegmentState.COPY_SEGMENT_FINISHED
    return SegmentMetadata(PARTITION, segment_id(start), start, end, 0, 1, 0, 1, state, ())


def test_gaps() -> None:
    whole = [segment(0, 9), segment(10, 19), segment(15, 29)]
    assert gaps(whole, 0, 30) == gaps(whole, 5, 12) == gaps([], 7, 7) == []
    assert gaps(whole, 0, 32) == [TierProblem("gap", "offsets 30 to 31")]
    assert gaps([segment(4, 9), segment(12, 19)], 2, 15) == [
        TierProblem("gap", "offsets 2 to 3"),
        TierProblem("gap", "offsets 10 to 11"),
    ]
    assert gaps([], 0, 3) == [TierProblem("gap", "offsets 0 to 2")]
