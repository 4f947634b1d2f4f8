"""A small sample of `scripts/soak chaos`: links of three nodes are cut, and disks run full."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import report
from tests.chaos.faults import Fault
from tests.chaos.network import unsupported
from tests.chaos.story import tell

SECONDS = 8
KINDS = (Fault.CUT, Fault.ONE_WAY_CUT, Fault.FULL_DISK)


def test_nothing_acknowledged_is_lost_by_cuts_and_full_disks(tmp_path: Path) -> None:
    if reason := unsupported():
        pytest.skip(f"only with a network of its own: {reason}")
    story = tell(tmp_path, "kaa", 3, SECONDS, KINDS, is_combined=True)
    assert story.is_sound, "\n".join(report.lines(story))
    assert story.counts["sends acknowledged"] > 0
    assert story.counts["transactions OK"] > 0
    report.draw(story, tmp_path / "line.png")
    assert (tmp_path / "line.png").stat().st_size > 10_000
